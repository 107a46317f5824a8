"""Golden index files: what the Java engine wrote and what it answered, one archive per kind of file.

``tests/golden/unit/<kind>.zip`` holds the files of one kind, JSON documents and binary files side by side;
``tests/golden/pack.py`` makes the archives, the README beside them says what the documents mean.
"""

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

_ARCHIVES = Path(__file__).parent / "golden" / "unit"


@cache
def files(kind: str) -> dict[str, bytes]:
    """Content by file name; shared, so do not change it."""
    with zipfile.ZipFile(_ARCHIVES / f"{kind}.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@cache
def document(kind: str, name: str) -> dict[str, Any]:
    """The JSON document ``name`` (without its suffix); shared, so do not change it."""
    content: dict[str, Any] = json.loads(files(kind)[f"{name}.json"])
    return content


def documents(kind: str) -> tuple[str, ...]:
    """The names of all JSON documents, without their suffix."""
    return tuple(sorted(name.removesuffix(".json") for name in files(kind) if name.endswith(".json")))
