"""Which manifests lie together: few objects, which commits leave alone."""

from __future__ import annotations

from collections.abc import Sequence

from app.table.manifests.shared_groups import LARGE_BYTES, shared_groups

FILES = [(f"manifest-{number}", 20_000) for number in range(400)]


def names(files: Sequence[tuple[str, int | None]]) -> list[tuple[str, ...]]:
    return [tuple(files[number][0] for number in group) for group in shared_groups(files)]


def test_every_manifest_is_in_one_group() -> None:
    groups = names([*FILES])
    assert [name for group in groups for name in group] == [name for name, _ in FILES]
    assert 10 < len(groups) < 60


def test_a_commit_changes_the_last_group_only() -> None:
    before, after = names(FILES[:300]), names(FILES[:301])
    assert before[:-1] == after[: len(before) - 1]


def test_what_a_merge_leaves_stays_together() -> None:
    before, after = names([*FILES]), names([("merged", 2 << 20), *FILES[100:]])
    assert len(set(after) - set(before)) <= 2


def test_large_manifests_are_alone() -> None:
    files = [("a", 1), ("b", LARGE_BYTES), ("c", 1), ("d", None), ("e", 1)]
    assert [group for group in names(files) if {"b", "d"} & set(group)] == [("b",), ("d",)]


def test_there_may_be_none() -> None:
    assert names([]) == []
