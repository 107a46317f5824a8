"""Putting a payload together without holding it twice."""

from __future__ import annotations

from collections import deque
from io import BytesIO

from app.types.roaring import Buffer


def join_parts(parts: deque[Buffer]) -> bytes:
    """The parts one behind the other; they go from the queue while the payload grows."""
    payload = BytesIO()
    while parts:
        payload.write(parts.popleft())
    return payload.getvalue()
