"""Deletion vectors of golden tables: every position, and an error rather than a row too few."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyroaring import BitMap

from app.deletion_vectors import EncodedVector, write_file
from app.errors import CorruptIndexError, FileMissingError, FilterError
from app.planning.deletions import DeletionsAnswer
from app.planning.plan.answers import Plan
from app.planning.request.requests import DeletionsRequest, SnapshotSelector
from app.planning.service import IndexService
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from tests.golden_checks import positions
from tests.golden_tables import expected, tables
from tests.planning.copied_tables import CopiedTable, golden_ref, open_service
from tests.planning.made_tables import MadeTable
from tests.table.entries import EMPTY_ROW, entry

CopyTable: TypeAlias = "Callable[[str], CopiedTable]"

_TABLES = [table for table in tables() if expected(table)["deletion_vectors"]]


def visible_files(table: str) -> Iterator[tuple[SnapshotSelector, list[Mapping[str, Any]]]]:
    """The files that a batch read sees, of each recorded version."""
    for version in expected(table)["versions"]:
        yield SnapshotSelector(**version["at"]), [file for file in version["files"] if file["visible"]]


def deleted(file: Mapping[str, Any]) -> set[int]:
    return positions(file["deletion"]["positions"]) if file["deletion"] else set()


def found_positions(answer: DeletionsAnswer) -> dict[str, set[int]]:
    return {each.file_name: set(each.positions or ()) for each in answer.deletions}


@pytest.mark.parametrize("table", _TABLES)
def test_every_vector_holds_the_positions_that_the_engine_deleted(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        answer = service.deletions(golden_ref(table), DeletionsRequest(selector))

        assert found_positions(answer) == {file["file"]: deleted(file) for file in files if file["deletion"]}
        by_name = {file["file"]: file for file in files}
        for each in answer.deletions:
            assert each.cardinality == len(each.positions or ())
            assert dict(each.partition) == by_name[each.file_name]["partition"]
            assert each.bucket == by_name[each.file_name]["bucket"]
        assert answer.unknown_files == ()


@pytest.mark.parametrize("table", _TABLES)
def test_counts_are_the_numbers_of_positions(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        answer = service.deletions(golden_ref(table), DeletionsRequest(selector, count_only=True))

        counts = {each.file_name: each.cardinality for each in answer.deletions}
        assert counts == {file["file"]: len(deleted(file)) for file in files if file["deletion"]}


@pytest.mark.parametrize("table", _TABLES)
def test_a_named_file_without_a_vector_has_no_deletions(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        named = (*(file["file"] for file in files), "data-nowhere.parquet")

        answer = service.deletions(golden_ref(table), DeletionsRequest(selector, files=named))

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
    written = write_file([EncodedVector.encode("new", BitMap([1, 3]), is64=False)], "index-0")
    (made.directory / "index" / "index-0").write_bytes(written.content)
    files = [entry(file_name="new", level=0), entry(file_name="other", level=0)]
    made.commit(files, index_entries=[IndexEntry(FileKind.ADD, EMPTY_ROW, 0, written.meta)])
    with closing(open_service(tmp_path)) as service:
        answer = service.deletions(made.ref, DeletionsRequest(files=("new", "other")))

        assert found_positions(answer) == {"new": {1, 3}, "other": set()}
        assert service.deletions(made.ref, DeletionsRequest()).deletions == ()


@pytest.mark.parametrize("table", [each for each in _TABLES if expected(each)["partition_keys"]])
def test_a_partition_is_answered_alone(service: IndexService, table: str) -> None:
    for selector, files in visible_files(table):
        for partition in {str(file["partition"]): file["partition"] for file in files}.values():
            answer = service.deletions(golden_ref(table), DeletionsRequest(selector, partition=partition))

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
    """A file of vectors in use, and a data file that has one in it."""
    files = expected(copied.ref.table)["versions"][0]["files"]
    holder = next(file for file in files if file["visible"] and deleted(file))
    return copied.directory / holder["deletion"]["path"], holder["file"]


def _deletions(copied: CopiedTable) -> dict[str, set[int]]:
    copied.service.clear_caches()
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
    for at in chance.sample(range(len(content)), min(25, len(content))):
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
    for length in range(0, len(content), max(1, len(content) // 20)):
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
