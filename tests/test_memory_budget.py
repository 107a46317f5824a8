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
    assert found.parts + found.decoding + PROCESS_BYTES <= found.limit
    assert found.decoding > 0
    assert min(found.caches.by_name.values()) > 0


def test_what_is_set_wins_and_leaves_less_to_the_others() -> None:
    found, others = budget(2048, cache_manifests_bytes=700 * MIB), budget(2048)

    assert found.caches.manifests == 700 * MIB
    assert found.caches.file_indexes < others.caches.file_indexes
    assert found.caches.total <= others.caches.total


def test_caches_share_what_is_not_set() -> None:
    found = budget(2048, cache_bytes=400 * MIB, cache_plans_bytes=100 * MIB).caches

    assert found.total == pytest.approx(400 * MIB, abs=10)
    assert found.plans == 100 * MIB
    assert found.sharing == {*found.by_name} - {"plans"}


def test_the_operator_may_say_how_much_there_is() -> None:
    found = budget(512, memory_bytes=4096 * MIB)

    assert (found.limit, found.source) == (4096 * MIB, "PAIMON_INDEX_MEMORY_BYTES")


@pytest.mark.parametrize(
    ("mebibytes", "settings"),
    [
        (200, {}),
        (2048, {"workers": 8}),
        (1024, {"cache_manifests_bytes": 900 * MIB}),
        (1024, {"cache_bytes": 900 * MIB}),
        (1024, {"bodies_bytes": 900 * MIB}),
        (1024, {"read_bytes": 900 * MIB}),
    ],
)
def test_what_cannot_fit_is_an_error_that_says_what_to_do(
    mebibytes: int, settings: dict[str, object]
) -> None:
    with pytest.raises(SettingsError, match=r"a group.*(give at least|lower)"):
        budget(mebibytes, **settings)
