"""Digests of contents and of requests, as names that are equal in every process."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Final

from app.errors import RequestError

DIGEST_BYTES: Final = 16
# Texts and lists longer than this are replaced by their digests.
_LONG: Final = 1 << 14


def digest(*parts: bytes) -> bytes:
    """Hash ``parts``, in this order, to 16 bytes."""
    hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        # With the length in front, no two lists of parts run together to the same bytes.
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.digest()


def content_digest(*contents: bytes) -> str:
    """Hash file contents to a short hexadecimal name."""
    return digest(*contents).hex()


def request_digest(*parts: object) -> bytes:
    """Hash a request to 16 bytes, equal for equal requests in every process.

    ``parts`` are dataclasses, requests, decimals, and JSON values. The order of a mapping's members does not
    count.
    """
    return digest(_written([_abridged(part) for part in parts]))


def _written(part: object) -> bytes:
    return json.dumps(part, sort_keys=True, separators=(",", ":"), default=_as_json).encode()


def _as_json(part: object) -> object:
    if isinstance(part, Decimal):
        return {"": str(part)}
    # Pydantic models are recognized by their members: importing pydantic takes longer than a digest.
    members = getattr(type(part), "__dataclass_fields__", None) or getattr(type(part), "model_fields", None)
    if members:
        return [type(part).__name__, *(_abridged(getattr(part, name)) for name in members)]
    raise RequestError(f"a {type(part).__name__} cannot be part of a request: give what JSON can hold")


def _abridged(part: object) -> object:
    # Writing JSON holds the interpreter for the whole call, so long parts become digests first.
    match part:
        case str() if len(part) > _LONG:
            return {"text": content_digest(part.encode(errors="surrogatepass"))}
        case list() | tuple() if len(part) > _LONG:
            places = range(0, len(part), _LONG)
            return {"list": content_digest(*(_written(part[at : at + _LONG]) for at in places))}
        case dict():
            return {name: _abridged(member) for name, member in part.items()}
        case _:
            return part
