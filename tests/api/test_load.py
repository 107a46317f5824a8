"""Bodies that are being received are bounded together."""

from __future__ import annotations

import pytest

from app.api.load import Bodies
from app.errors import MemoryShortError

LARGE = 1 << 20


def test_bodies_share_one_limit() -> None:
    bodies = Bodies(3 * LARGE)
    with bodies.one_more() as first, bodies.one_more() as second:
        first.grow(2 * LARGE)
        with pytest.raises(MemoryShortError, match="ask again"):
            second.grow(2 * LARGE)
        second.grow(LARGE)
        assert bodies.held == 3 * LARGE

    assert bodies.held == 0


def test_small_bodies_are_always_received() -> None:
    bodies = Bodies(LARGE)
    with bodies.one_more() as large, bodies.one_more() as small:
        large.grow(LARGE)
        small.grow(1000)

        with pytest.raises(MemoryShortError):
            small.grow(LARGE)
