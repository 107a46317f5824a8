"""Tokens files for tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.access import stored_digest


def entry(name: str, secret: str, **members: Any) -> dict[str, Any]:
    """Return a token of the file: a reader of warehouse main, unless told otherwise."""
    return {
        "name": name,
        "sha256": stored_digest(secret),
        "role": "reader",
        "warehouses": ["main"],
        **members,
    }


def document(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"tokens": entries}).encode()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def write(path: Path, *entries: Mapping[str, Any]) -> Path:
    path.write_bytes(document(*entries))
    return path
