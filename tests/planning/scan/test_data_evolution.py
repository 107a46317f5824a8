"""Files that hold columns of the same rows, beside the rows put together one by one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.answers import SKIP
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, IndexKind
from app.file_index.stacked_index import FileIndex
from app.planning.plan.file_plan import KeepReason, SkipStep
from app.planning.request.requests import SelectionForm
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant
from app.predicates.simplify import conjunction, disjunction
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type
from tests.examples import examples
from tests.planning.strategies import pool, predicates
from tests.row_matches import matches
from tests.tables import (
    MadeTable,
    MadeTables,
    entry,
    file_of,
    names_of,
    payload,
    statistics,
)

A, B, C = COLUMNS = tuple(DataField(at, name, parse_type("INT")) for at, name in enumerate("abc"))
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}

_KINDS = (BITMAP, RANGE_BITMAP, BSI, BLOOM_FILTER)


@dataclass(frozen=True)
class JoinedFile:
    """A data file: its first row id, the values of the columns that it holds, and what is known of them."""

    first: int
    columns: dict[DataField, list[int | None]]
    indexes: Mapping[DataField, tuple[IndexKind, ...]] = field(default_factory=dict)
    has_statistics: bool = True

    @property
    def row_ids(self) -> range:
        return range(self.first, self.first + len(next(iter(self.columns.values()))))

    @property
    def index(self) -> bytes | None:
        if not self.indexes:
            return None
        return container.write(
            {
                column.name: [(kind, payload(kind, self.columns[column], column)) for kind in kinds]
                for column, kinds in self.indexes.items()
            }
        )

    def file_index(self) -> FileIndex | None:
        return None if self.index is None else FileIndex.read(self.index)

    def entry(self, name: str, sequence: int) -> ManifestEntry:
        """Return the newer of two files has the larger sequence number."""
        return file_of(
            name,
            self.columns,
            bounded=self.has_statistics,
            first_row_id=self.first,
            write_columns=tuple(column.name for column in self.columns),
            max_sequence_number=sequence,
            embedded_index=self.index,
        )


def table(
    warehouse: MadeTables,
    entries: Iterable[ManifestEntry],
    deleted: Mapping[str, Iterable[int]] | None = None,
) -> MadeTable:
    """Return a table of some files, with the positions that the deletion vectors of some of them delete."""
    options = EVOLVING | {"deletion-vectors.enabled": str(bool(deleted)).lower()}
    made = warehouse.make(COLUMNS, options=options)
    index = []
    if deleted:
        index = [made.vectors(deleted)]
    made.commit(list(entries), index_entries=index)
    return made


def table_of(warehouse: MadeTables, files: Sequence[JoinedFile], order: Sequence[int]) -> MadeTable:
    """Return a table of files that are named by their numbers; a larger number is newer."""
    return table(warehouse, (files[number].entry(str(number), number) for number in order))


@st.composite
def joined_files(
    draw: st.DrawFn,
    first: st.SearchStrategy[int],
    rows: st.SearchStrategy[int],
    has_statistics: st.SearchStrategy[bool],
) -> JoinedFile:
    columns = draw(st.sampled_from([COLUMNS, COLUMNS, (A,), (B,), (C,), (A, B), (B, C)]))
    values = st.none() | st.sampled_from(pool(A.type))
    count = draw(rows)
    kinds = st.lists(st.sampled_from(_KINDS), max_size=2, unique=True).map(tuple)
    listed = {column: draw(kinds) for column in columns}
    return JoinedFile(
        draw(first),
        {column: draw(st.lists(values, min_size=count, max_size=count)) for column in columns},
        {column: each for column, each in listed.items() if each},
        draw(has_statistics),
    )


def groups_of(files: Sequence[JoinedFile]) -> list[list[int]]:
    """Numbers of the files that are read together, by hand: those whose rows overlap, and so on."""
    groups: list[list[int]] = []
    for number, file in enumerate(files):
        met = [
            group for group in groups if any(set(file.row_ids) & set(files[other].row_ids) for other in group)
        ]
        groups = [group for group in groups if group not in met]
        groups.append(sorted([number, *(other for group in met for other in group)]))
    return groups


def rows_of(files: Sequence[JoinedFile]) -> dict[int, dict[int, Any]]:
    """Return the rows by their ids; of the files that hold a column the newest has its value."""
    found: dict[int, dict[int, Any]] = {}
    for file in files:
        for column, values in file.columns.items():
            for row_id, value in zip(file.row_ids, values, strict=True):
                found.setdefault(row_id, {each.id: None for each in COLUMNS})[column.id] = value
    return found


WITH_BITMAP = (BITMAP,)


@given(
    files=st.lists(joined_files(st.integers(0, 5), st.integers(1, 3), st.booleans()), min_size=1, max_size=8),
    filters=st.lists(predicates(COLUMNS, with_unknown=True), min_size=3, max_size=3),
    explain=st.booleans(),
    data=st.data(),
)
@examples(50)
def test_files_of_a_row_that_matches_are_kept_together(
    warehouse: MadeTables,
    files: list[JoinedFile],
    filters: list[BoundPredicate],
    explain: bool,
    data: st.DataObject,
) -> None:
    made = table_of(warehouse, files, data.draw(st.permutations(range(len(files)))))
    rows = rows_of(files)
    for predicate in filters:
        plan = made.plan_bound(
            warehouse.service, predicate, selection=SelectionForm.POSITIONS, explain=explain
        )
        kept = {int(file.file_name): file for file in plan.files}

        for group in groups_of(files):
            answer = {
                row_id
                for number in group
                for row_id in files[number].row_ids
                if matches(predicate, rows[row_id]) is not False
            }
            together = kept.keys() & set(group)
            assert together in (set(), set(group))
            assert together or not answer
            if len(group) > 1:
                assert len({kept[number].merge_group for number in together}) <= 1
                assert all(
                    (file.raw_convertible, file.residual, file.selection) == (False, True, None)
                    for number, file in kept.items()
                    if number in together
                )
            elif together:
                file = kept[group[0]]
                selected = range(file.row_count) if file.selection is None else file.selection
                read = {files[group[0]].first + at for at in selected}
                assert (file.raw_convertible, file.merge_group) == (True, None)
                assert read >= answer
                assert file.residual or read == answer


def excluded_by_indexes(predicate: BoundPredicate, files: Sequence[JoinedFile]) -> bool:
    """Whether the indexes of files with the same rows leave none of them, asked one by one; oldest first."""
    holders = {column.id: at for at, file in enumerate(files) for column in file.columns}

    def file_of(part: BoundPredicate) -> int | None:
        match part:
            case BoundLeaf(field=column):
                return holders.get(column.id)
            case BoundAnd(children) | BoundOr(children):
                found = {file_of(child) for child in children}
                return found.pop() if len(found) == 1 else None
            case _:
                return None

    def excluded(part: BoundPredicate) -> bool:
        at = file_of(part)
        if at is not None:
            index = files[at].file_index()
            return index is not None and evaluate(part, index) is SKIP
        match part:
            case Constant(value):
                return not value
            case BoundAnd(children) | BoundOr(children):
                is_and = isinstance(part, BoundAnd)
                join = conjunction if is_and else disjunction
                asked = {file_of(child) for child in children} - {None}
                pieces = [join([child for child in children if file_of(child) == at]) for at in asked]
                mixed = [child for child in children if file_of(child) is None]
                return (any if is_and else all)(map(excluded, [*pieces, *mixed]))
            case BoundLeaf(operator=operator):
                # Nobody holds the column, so that it is NULL.
                return operator != "IS_NULL"
            case _:
                return False

    return excluded(predicate)


@given(
    files=st.lists(joined_files(st.just(7), st.just(3), st.just(value=False)), min_size=2, max_size=4),
    filters=st.lists(predicates(COLUMNS, with_unknown=True), min_size=5, max_size=5),
)
@examples(50)
def test_the_index_of_the_file_that_has_the_values_is_asked(
    warehouse: MadeTables, files: list[JoinedFile], filters: list[BoundPredicate]
) -> None:
    made = table_of(warehouse, files, range(len(files)))
    for predicate in filters:
        plan = made.plan_bound(warehouse.service, predicate)

        assert bool(plan.files) is not excluded_by_indexes(predicate, files)


@given(
    files=st.lists(joined_files(st.integers(0, 5), st.just(1), st.just(value=True)), min_size=1, max_size=8),
    filters=st.lists(predicates(COLUMNS), min_size=3, max_size=3),
    data=st.data(),
)
@examples(40)
def test_of_single_rows_just_those_that_match_are_kept(
    warehouse: MadeTables, files: list[JoinedFile], filters: list[BoundPredicate], data: st.DataObject
) -> None:
    """Bounds of one row tell all of it."""
    made = table_of(warehouse, files, data.draw(st.permutations(range(len(files)))))
    rows = rows_of(files)
    for predicate in filters:
        plan = made.plan_bound(warehouse.service, predicate)
        kept = {files[int(name)].first for name in names_of(plan.files)}

        assert kept == {row_id for row_id, row in rows.items() if matches(predicate, row)}


def test_what_decided_of_a_group_is_told(warehouse: MadeTables) -> None:
    old = JoinedFile(0, {A: [1, 3], B: [5, 6]}, {A: WITH_BITMAP})
    made = table_of(warehouse, [old, JoinedFile(0, {B: [7, 8]})], [0, 1])

    plan = made.plan(warehouse.service, "a = 2", explain=True)

    assert plan.summary.skipped_by == {SkipStep.FILE_INDEX: 2}
    assert {(step.index, step.outcome) for file in plan.skipped_files for step in file.explain or ()} >= {
        ("bitmap", "skip")
    }


def test_a_broken_index_keeps_its_group(warehouse: MadeTables) -> None:
    old = JoinedFile(0, {A: [1, 3], B: [5, 6]}, {A: WITH_BITMAP})
    whole = old.entry("old", 1)
    assert whole.file.embedded_index is not None
    broken = replace(whole, file=replace(whole.file, embedded_index=whole.file.embedded_index[:-3]))
    made = table(warehouse, [broken, JoinedFile(0, {B: [7, 8]}).entry("new", 2)])

    plan = made.plan(warehouse.service, "a = 2")

    assert {file.file_name: file.reason for file in plan.files} == {
        "old": KeepReason.INDEX_UNREADABLE,
        "new": KeepReason.MERGE_REQUIRED,
    }
    assert len(plan.warnings) == 1


def test_nothing_is_said_of_a_column_of_two_equally_new_files(warehouse: MadeTables) -> None:
    one, other = (
        JoinedFile(0, {A: [1, 1]}, {A: WITH_BITMAP}),
        JoinedFile(0, {A: [2, 2], B: [3, 3]}, {A: WITH_BITMAP}),
    )
    made = table(warehouse, [one.entry("one", 4), other.entry("other", 4)])

    assert len(made.plan(warehouse.service, "a = 9").files) == 2
    assert not made.plan(warehouse.service, "b = 9").files


def blob(first: int, rows: int, name: str) -> ManifestEntry:
    file = JoinedFile(first, {C: [1] * rows})
    return file.entry(name, 3)


@pytest.mark.parametrize("name", ["1-{}.blob", "2-{}.vector.lance"])
def test_files_of_some_of_the_rows_go_with_their_group(warehouse: MadeTables, name: str) -> None:
    """Blob and vector files hold some rows of a group each; of their columns nothing is said."""
    rows = JoinedFile(0, {A: [1, 2, 3, 5], B: [1, 1, 1, 1]}, {A: WITH_BITMAP}).entry("rows", 2)
    made = table(warehouse, [blob(0, 3, name.format(0)), rows, blob(3, 1, name.format(1))])

    def kept(written: str) -> int:
        return len(made.plan(warehouse.service, written).files)

    assert kept("a = 4") == kept("a = 0") == kept("c = 9 AND b = 2") == 0
    assert kept("a = 3") == kept("c = 9") == kept("c IS NULL") == kept("a = 4 OR c = 9") == 3


def test_files_without_data_files_beside_them_are_kept(warehouse: MadeTables) -> None:
    made = table(warehouse, [blob(0, 3, "1.blob")])

    (file,) = made.plan(warehouse.service, "c = 9").files

    assert (file.reason, file.raw_convertible) == (KeepReason.MERGE_REQUIRED, False)


def test_a_group_is_left_out_if_the_vector_of_its_oldest_file_deletes_all(warehouse: MadeTables) -> None:
    old, new = (
        JoinedFile(0, {A: [1, 2], B: [1, 2]}).entry("old", 1),
        JoinedFile(0, {B: [3, 4]}).entry("new", 2),
    )

    def kept(deleted: dict[str, list[int]]) -> list[str]:
        plan = table(warehouse, [new, old], deleted).plan(warehouse.service, "a > 0")
        assert all(file.reason is KeepReason.MERGE_REQUIRED for file in plan.files)
        return names_of(plan.files)

    assert kept({"old": [0, 1]}) == []
    assert kept({"old": [0]}) == kept({"new": [0, 1]}) == ["new", "old"]


def test_rows_of_another_bucket_are_others(warehouse: MadeTables) -> None:
    """Row ids are given once, so that this table is damaged; readers put together the files of one bucket."""
    file = JoinedFile(0, {A: [1, 2]})
    here, there = file.entry("here", 1), replace(file.entry("there", 2), bucket=1)
    made = table(warehouse, [here, there])

    assert [each.merge_group for each in made.plan(warehouse.service).files] == [None, None]


@pytest.mark.parametrize("first", [None, (1 << 63) - 5])
def test_a_file_that_does_not_say_which_rows_it_holds_is_kept(
    warehouse: MadeTables, first: int | None
) -> None:
    made = warehouse.make(COLUMNS, options=EVOLVING)
    made.commit([entry(file_name="0", first_row_id=first, **statistics({A: [1] * 10}))])

    (file,) = made.plan(warehouse.service, "a = 2").files

    assert (file.reason, file.merge_group) == (KeepReason.MERGE_REQUIRED, None)
