"""How the memory of a process is shared out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SettingsError
from app.memory_budget import CACHE_SHARES, PROCESS_BYTES, MemoryBudget
from app.settings import Settings
from app.storage.memory_limit import MemoryLimit

MIB = 1 << 20


def budget(mebibytes: int, **settings: object) -> MemoryBudget:
    return MemoryBudget.of(Settings.load(**settings), MemoryLimit(mebibytes * MIB, "a group"))


def test_shares_are_a_whole() -> None:
    assert sum(CACHE_SHARES.values()) == pytest.approx(1)


@given(mebibytes=st.integers(320, 1 << 16), workers=st.integers(1, 8))
def test_all_parts_fit_whatever_there_is(mebibytes: int, workers: int) -> None:
    found = budget(mebibytes * workers + 160, workers=workers)

    assert found.limit <= (mebibytes * workers + 160) * MIB // workers
    parts = (found.caches.total, found.loads, found.bodies, found.reads, found.decoding)
    assert sum(parts) + PROCESS_BYTES <= found.limit
    assert min(parts) > 0
    assert min(found.caches.by_name.values()) > 0


def test_the_operator_may_say_how_much_there_is() -> None:
    found = budget(512, memory_bytes=4096 * MIB)

    assert (found.limit, found.source) == (4096 * MIB, "PAIMON_INDEX_MEMORY_BYTES")


@pytest.mark.parametrize(
    ("mebibytes", "settings"),
    [(200, {}), (2048, {"workers": 8})],
)
def test_what_cannot_fit_is_an_error_that_says_what_to_do(
    mebibytes: int, settings: dict[str, object]
) -> None:
    with pytest.raises(SettingsError, match=r"a group.*give at least"):
        budget(mebibytes, **settings)
