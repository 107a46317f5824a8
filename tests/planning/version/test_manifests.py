"""Manifests of which some are held at a time, beside a plain list of them."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.version.manifests import Manifests, read_manifests
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile
from tests.examples import examples
from tests.table.entries import entry, manifest

COUNT = 12
BYTES = 100
FILES = [(f"manifest-{number}", 10) for number in range(COUNT)]


class Store:
    """Makes manifests of :data:`BYTES` each, whose only file is named after them, and notes what was read."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []

    def read(self, files: Sequence[ManifestFile]) -> list[Manifest]:
        self.reads.append([name for name, _ in files])
        return [replace(manifest([entry(file_name=name)]), decoded_bytes=BYTES) for name, _ in files]


def limited(store: Store, most_bytes: int) -> Manifests:
    return Manifests(FILES, store.read, COUNT * BYTES, most_bytes)


@given(asked=st.lists(st.lists(st.integers(0, COUNT - 1), max_size=COUNT)), most=st.integers(0, 13 * BYTES))
@examples(50)
def test_each_number_gives_its_manifest(asked: list[list[int]], most: int) -> None:
    manifests = limited(Store(), most)

    for numbers in asked:
        assert [*manifests.load_in_order(numbers)] == numbers
        assert [manifests[number].file_name(0) for number in numbers] == [FILES[at][0] for at in numbers]
    assert [each.file_name(0) for each in manifests] == [name for name, _ in FILES]
    assert len(manifests) == COUNT
    assert [each.file_name(0) for each in manifests[-2:]] == ["manifest-10", "manifest-11"]
    assert [each.file_name(0) for each in manifests.choose([7, 3])] == ["manifest-7", "manifest-3"]


@pytest.mark.parametrize("held", [1, 2, 5])
def test_no_more_in_memory_than_there_is_room_for(held: int) -> None:
    manifests = limited(Store(), held * BYTES)
    before = _alive()

    for _ in manifests:
        # One more may be the one that is looked at.
        assert _alive() - before <= held + 1


def _alive() -> int:
    return sum(isinstance(each, Manifest) for each in gc.get_objects())


def test_what_is_asked_ahead_is_read_side_by_side() -> None:
    store = Store()
    manifests = limited(store, 4 * BYTES)

    for number in manifests.load_in_order([1, 2, 5, 7, 8]):
        assert manifests[number].file_name(0) == FILES[number][0]

    assert store.reads == [["manifest-1", "manifest-2", "manifest-5", "manifest-7"], ["manifest-8"]]


def test_what_is_held_is_not_read_again() -> None:
    store = Store()
    manifests = limited(store, 4 * BYTES)

    for numbers in ([0, 1], [1, 2, 3], [0, 3]):
        assert [*manifests.load_in_order(numbers)] == numbers

    assert store.reads == [["manifest-0", "manifest-1"], ["manifest-2", "manifest-3"]]


@pytest.mark.parametrize(
    ("room", "known", "in_memory"),
    [
        pytest.param(COUNT * BYTES, None, True, id="they turn out to fit"),
        pytest.param(COUNT * BYTES - 1, None, False, id="they turn out not to fit"),
        pytest.param(COUNT * BYTES, COUNT * BYTES, True, id="known to fit"),
        pytest.param(COUNT * BYTES, COUNT * BYTES + 1, False, id="known not to fit"),
        pytest.param(0, None, True, id="no bound"),
    ],
)
def test_a_version_that_fits_is_held(room: int, known: int | None, *, in_memory: bool) -> None:
    cached, uncached = Store(), Store()
    manifests = read_manifests(FILES, cached.read, uncached.read, room, known)

    assert [each.file_name(0) for each in manifests] == [name for name, _ in FILES]
    assert manifests.in_memory is in_memory
    assert (not uncached.reads) is in_memory


def test_few_are_read_before_it_is_known_that_they_do_not_fit() -> None:
    cached = Store()
    read_manifests(FILES, cached.read, Store().read, 5 * BYTES)

    assert len(cached.reads) == 1
    assert len(cached.reads[0]) < COUNT / 2
