"""Deletion vectors: every position of golden tables, read once, and an error rather than a row too few."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.deletion_vectors import EncodedVector, write_file
from app.errors import CorruptIndexError, FileMissingError, FilterError, SnapshotExpiredError
from app.planning.deletions import DeletionsAnswer, VectorPlace, load_vectors
from app.planning.plan.answers import Plan
from app.planning.request.requests import DeletionsRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.planning.version.version import IndexSource
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from app.types.index_files import DeletionRange
from tests.copied_tables import CopiedTable, CopyTable
from tests.examples import examples, share
from tests.golden_cases import expected, tables
from tests.golden_checks import positions
from tests.tables import MadeTable, entry, golden_ref, open_service

_TABLES = [table for table in tables() if expected(table)["deletion_vectors"]]


def visible_files(table: str) -> Iterator[tuple[SnapshotSelector, list[Mapping[str, Any]]]]:
    """Yield the files that a batch read sees, of each recorded version."""
    for version in expected(table)["versions"]:
        yield SnapshotSelector(**version["at"]), [file for file in version["files"] if file["visible"]]


def deleted(file: Mapping[str, Any]) -> set[int]:
    return positions(file["deletion"]["positions"]) if file["deletion"] else set()


def found_positions(answer: DeletionsAnswer) -> dict[str, set[int]]:
    return {each.file_name: set(each.positions or ()) for each in answer.deletions}


@pytest.mark.parametrize("table", _TABLES)
def test_counts_are_the_numbers_of_positions(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        answer = service.deletions(
            service.resolve(golden_ref(table), selector), DeletionsRequest(encoding=SelectionForm.COUNT)
        )

        counts = {each.file_name: each.cardinality for each in answer.deletions}
        assert counts == {file["file"]: len(deleted(file)) for file in files if file["deletion"]}


@pytest.mark.parametrize("table", _TABLES)
def test_a_named_file_without_a_vector_has_no_deletions(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        named = (*(file["file"] for file in files), "data-nowhere.parquet")

        answer = service.deletions(
            service.resolve(golden_ref(table), selector), DeletionsRequest(files=named)
        )

        assert found_positions(answer) == {file["file"]: deleted(file) for file in files}
        assert all(each.cardinality == len(each.positions or ()) for each in answer.deletions)
        assert answer.unknown_files == ("data-nowhere.parquet",)


@pytest.mark.parametrize("table", ["pk_dv", "pk_first_row", "pk_postpone"])
def test_a_named_file_that_batch_reads_do_not_see_is_known(service: IndexService, table: str) -> None:
    hidden = {file["file"]: file for file in expected(table)["versions"][0]["files"] if not file["visible"]}
    assert hidden

    answer = service.deletions(golden_ref(table), DeletionsRequest(files=(*hidden, "data-nowhere.parquet")))

    assert [(each.file_name, each.cardinality, each.positions) for each in answer.deletions] == [
        (each.file_name, 0, None) for each in answer.deletions
    ]
    assert {each.file_name: (each.partition, each.bucket) for each in answer.deletions} == {
        name: (file["partition"], file["bucket"]) for name, file in hidden.items()
    }
    assert answer.unknown_files == ("data-nowhere.parquet",)


def test_the_vector_of_a_file_that_batch_reads_do_not_see_is_told(tmp_path: Path) -> None:
    key = DataField(0, "id", parse_type("INT"))
    options = {"deletion-vectors.enabled": "true", "bucket": "1"}
    made = MadeTable.make(tmp_path, [key], primary_key=[key], options=options)
    files = [entry(file_name="new", level=0), entry(file_name="other", level=0)]
    made.commit(files, index_entries=[made.vectors({"new": [1, 3]})])
    with closing(open_service(tmp_path)) as service:
        answer = service.deletions(made.ref, DeletionsRequest(files=("new", "other")))

        assert found_positions(answer) == {"new": {1, 3}, "other": set()}
        assert service.deletions(made.ref, DeletionsRequest()).deletions == ()


@pytest.mark.parametrize("table", [each for each in _TABLES if expected(each)["partition_keys"]])
def test_a_partition_is_answered_alone(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        for partition in {str(file["partition"]): file["partition"] for file in files}.values():
            answer = service.deletions(
                service.resolve(golden_ref(table), selector), DeletionsRequest(partition=partition)
            )

            assert found_positions(answer) == {
                file["file"]: deleted(file)
                for file in files
                if file["deletion"] and file["partition"] == partition
            }


@pytest.mark.parametrize("partition", [{}, {"part_day": "p1", "more": 1}, {"other": "p1"}])
def test_a_partition_that_the_table_cannot_have_is_refused(
    service: IndexService, partition: dict[str, Any]
) -> None:
    with pytest.raises(FilterError):
        service.deletions(golden_ref("pk_dv"), DeletionsRequest(partition=partition))


def _vector_file(copied: CopiedTable) -> tuple[Path, str]:
    """Return a file of vectors in use, and a data file that has one in it."""
    files = expected(copied.ref.table)["versions"][0]["files"]
    holder = next(file for file in files if file["visible"] and deleted(file))
    return copied.directory / holder["deletion"]["path"], holder["file"]


def _deletions(copied: CopiedTable) -> dict[str, set[int]]:
    copied.service.caches.clear()
    return found_positions(copied.service.deletions(copied.ref, DeletionsRequest()))


def _selections(plan: Plan) -> dict[str, set[int] | None]:
    return {file.file_name: None if file.selection is None else set(file.selection) for file in plan.files}


@pytest.mark.parametrize("table", ["append_dv32", "append_dv64", "pk_dv"])
def test_a_flipped_bit_is_an_error_and_never_another_answer(copy_table: CopyTable, table: str) -> None:
    copied = copy_table(table)
    path, _ = _vector_file(copied)
    content = path.read_bytes()
    intact, planned = _deletions(copied), _selections(copied.plan())
    chance = random.Random(table)  # noqa: S311 - the same damage every time
    refused = []
    for at in share(chance.sample(range(len(content)), min(25, len(content))), 5):
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            assert _deletions(copied) == intact
        except CorruptIndexError as error:
            refused.append(str(error))
        with suppress(CorruptIndexError):
            assert _selections(copied.plan()) == planned

    assert refused
    assert all(path.name in message for message in refused)


@pytest.mark.parametrize("table", ["append_dv32", "append_dv64", "pk_dv"])
def test_a_truncated_file_is_an_error(copy_table: CopyTable, table: str) -> None:
    copied = copy_table(table)
    path, _ = _vector_file(copied)
    content = path.read_bytes()
    for length in share(range(0, len(content), max(1, len(content) // 20)), 3):
        path.write_bytes(content[:length])

        with pytest.raises(CorruptIndexError, match=path.name):
            _deletions(copied)
        with pytest.raises(CorruptIndexError, match=path.name):
            copied.plan()


@pytest.mark.parametrize("table", ["append_dv32", "append_dv64", "pk_dv"])
def test_a_file_that_a_snapshot_needs_is_missing(copy_table: CopyTable, table: str) -> None:
    copied = copy_table(table)
    path, _ = _vector_file(copied)
    path.unlink()

    with pytest.raises(FileMissingError, match=path.name):
        _deletions(copied)
    with pytest.raises(FileMissingError, match=path.name):
        copied.plan()


_ROWS = 1000
_POSITIONS = st.sets(st.integers(0, _ROWS - 1), max_size=20)


# A wide vector is longer than its length says by another margin than a narrow one.
_FILES = st.lists(st.lists(st.tuples(_POSITIONS, st.booleans()), min_size=1, max_size=5), max_size=3)


class Written(NamedTuple):
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
    writer.copied.service.caches.clear()
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
    writer.copied.service.caches.clear()
    writer.load(written)

    statistics = writer.copied.service.caches.statistics()["deletion_vectors"]
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
        writer.copied.service.caches.clear()

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
    counts = copied.service.deletions(copied.ref, DeletionsRequest(encoding=SelectionForm.COUNT))
    for file in expected("append_dv32")["versions"][0]["files"]:
        if file["deletion"]:
            (copied.directory / file["deletion"]["path"]).unlink(missing_ok=True)

    assert list(copied.plan(selection=form).files) == list(whole.files)
    copied.service.caches.clear()
    assert copied.service.deletions(copied.ref, DeletionsRequest(encoding=SelectionForm.COUNT)) == counts
    assert sum(each.cardinality for each in counts.deletions) > 0
    with pytest.raises(FileMissingError):
        copied.service.deletions(copied.ref, DeletionsRequest())
