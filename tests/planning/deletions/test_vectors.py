"""Deletion vectors loaded together: each as if it were read alone, and nothing read twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.deletion_vectors import EncodedVector, write_file
from app.errors import CorruptIndexError, FileMissingError, SnapshotExpiredError
from app.planning.deletions import VectorPlace, load_vectors
from app.planning.request.requests import DeletionsRequest, SelectionForm, SnapshotSelector
from app.planning.version.version import IndexSource
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import DeletionRange
from tests.examples import examples
from tests.golden_tables import expected
from tests.planning.copied_tables import CopiedTable

CopyTable: TypeAlias = Callable[[str], CopiedTable]

_ROWS = 1000
_POSITIONS = st.sets(st.integers(0, _ROWS - 1), max_size=20)
# A wide vector is longer than its length says by another margin than a narrow one.
_FILES = st.lists(st.lists(st.tuples(_POSITIONS, st.booleans()), min_size=1, max_size=5), max_size=3)


class Written(NamedTuple):
    """A vector and where it lies."""

    positions: set[int]
    place: VectorPlace


class Writer:
    """Writes files of deletion vectors into a table, and loads them."""

    def __init__(self, copied: CopiedTable) -> None:
        self.copied = copied
        self.source: IndexSource = copied.service.resolve(copied.ref, SnapshotSelector()).source

    def path(self, name: str) -> Path:
        return self.copied.directory / "index" / name

    def write(self, name: str, vectors: Sequence[tuple[set[int], bool]]) -> list[Written]:
        encoded = [
            EncodedVector.encode(f"data-{at}", BitMap(positions), is64=wide)
            for at, (positions, wide) in enumerate(vectors)
        ]
        file = write_file(encoded, name)
        self.path(name).write_bytes(file.content)
        entry = IndexEntry(FileKind.ADD, b"", 0, file.meta)
        return [
            Written(positions, (entry, lies, _ROWS))
            for (positions, _), lies in zip(vectors, file.meta.ranges, strict=True)
        ]

    def load(self, *written: Written) -> list[set[int]]:
        vectors = load_vectors(self.source, [each.place for each in written])
        return [set(vector.positions) for vector in vectors]


@pytest.fixture
def writer(copy_table: CopyTable) -> Writer:
    return Writer(copy_table("append_dv32"))


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FILES, st.data())
def test_any_selection_in_any_order(
    writer: Writer, files: list[list[tuple[set[int], bool]]], data: st.DataObject
) -> None:
    writer.copied.service.clear_caches()
    written = [each for at, vectors in enumerate(files) for each in writer.write(f"dv-{at}", vectors)]
    for _ in range(2):
        chosen = data.draw(st.lists(st.sampled_from(written), max_size=8)) if written else []
        assert writer.load(*chosen) == [each.positions for each in chosen]


def test_what_was_loaded_is_not_read_again(writer: Writer) -> None:
    first, second = writer.write("dv", [({1}, False), ({2, 3}, True)])
    assert writer.load(second) == [{2, 3}]
    writer.path("dv").unlink()

    assert writer.load(second, second) == [{2, 3}, {2, 3}]
    with pytest.raises(SnapshotExpiredError, match="dv"):
        writer.load(second, first)


def test_a_kept_vector_weighs_what_it_takes_in_memory(writer: Writer) -> None:
    many = set(range(0, _ROWS, 3))
    (written,) = writer.write("dv", [(many, False)])
    writer.copied.service.clear_caches()
    writer.load(written)

    statistics = writer.copied.service.cache_statistics()["deletion_vectors"]
    assert statistics["entries"] == 1
    assert 2 * len(many) <= statistics["bytes"] <= 2 * len(many) + 500


def test_rows_beyond_the_data_file_are_corrupt_also_when_the_vector_is_known(writer: Writer) -> None:
    (written,) = writer.write("dv", [({5, 9}, False)])
    entry, place, _ = written.place
    assert writer.load(written) == [{5, 9}]
    assert load_vectors(writer.source, [(entry, place, 10)])[0].cardinality == 2

    with pytest.raises(CorruptIndexError, match="has 9 rows, but position 9"):
        load_vectors(writer.source, [(entry, place, 9)])


def test_another_number_of_rows_than_recorded_is_corrupt(writer: Writer) -> None:
    (written,) = writer.write("dv", [({5, 9}, True)])
    entry, place, rows = written.place
    for recorded in (1, 3):
        stated = DeletionRange(place.data_file, place.offset, place.length, recorded)
        with pytest.raises(CorruptIndexError, match=f"expected {recorded} deleted rows of data-0, found 2"):
            load_vectors(writer.source, [(entry, stated, rows)])
    unstated = DeletionRange(place.data_file, place.offset, place.length, None)
    assert load_vectors(writer.source, [(entry, unstated, rows)])[0].cardinality == 2


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 22), (2, 22), (1, 21), (1, 30), (1, 0), (10**6, 22), (2**31 - 1, 2**31 - 1)]
)
def test_ranges_that_hold_no_record_are_corrupt(writer: Writer, offset: int, length: int) -> None:
    (written,) = writer.write("dv", [({5, 9}, False)])
    entry, place, rows = written.place
    assert (place.offset, place.length) == (1, 24)

    with pytest.raises(CorruptIndexError, match="dv"):
        load_vectors(writer.source, [(entry, DeletionRange("data-0", offset, length, 2), rows)])


@pytest.mark.parametrize("wide", [False, True])
def test_every_cut_of_the_last_record_is_found(writer: Writer, wide: bool) -> None:
    first, last = writer.write("dv", [({1}, False), ({2}, wide)])
    content = writer.path("dv").read_bytes()
    for length in range(last.place[1].offset, len(content)):
        writer.path("dv").write_bytes(content[:length])
        writer.copied.service.clear_caches()

        assert writer.load(first) == [{1}]
        with pytest.raises(CorruptIndexError, match="dv"):
            writer.load(first, last)


def test_faults_are_placed_in_the_file(writer: Writer) -> None:
    _, broken = writer.write("dv", [({1}, False), ({2}, False)])
    offset = broken.place[1].offset
    content = bytearray(writer.path("dv").read_bytes())
    content[offset + 12] ^= 1
    writer.path("dv").write_bytes(content)

    with pytest.raises(CorruptIndexError, match="checksum") as caught:
        writer.load(broken)
    assert caught.value.offset == offset + 4
    assert str(caught.value).startswith(writer.source.paths.index_file(broken.place[0]))


@pytest.mark.parametrize("form", [SelectionForm.NONE, SelectionForm.COUNT])
def test_counts_come_from_the_manifest_alone(copy_table: CopyTable, form: SelectionForm) -> None:
    copied = copy_table("append_dv32")
    whole = copied.plan(selection=form)
    counts = copied.service.deletions(copied.ref, DeletionsRequest(count_only=True))
    for file in expected("append_dv32")["versions"][0]["files"]:
        if file["deletion"]:
            (copied.directory / file["deletion"]["path"]).unlink(missing_ok=True)

    assert list(copied.plan(selection=form).files) == list(whole.files)
    copied.service.clear_caches()
    assert copied.service.deletions(copied.ref, DeletionsRequest(count_only=True)) == counts
    assert sum(each.cardinality for each in counts.deletions) > 0
    with pytest.raises(FileMissingError):
        copied.service.deletions(copied.ref, DeletionsRequest())
