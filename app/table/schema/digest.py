"""Short names for file contents, for what has no other lasting name."""

from __future__ import annotations

import hashlib


def content_digest(*contents: bytes) -> str:
    """A short name for file contents, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    for content in contents:
        # With the length in front, no two lists of contents run together to the same bytes.
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.hexdigest()
