"""The filter inside of each partition, beside every test decided partition by partition."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import SkipStep
from app.planning.plan.state import PlanState, decision
from app.planning.scan.partition_pruning import only_on, prune_partitions, specialise
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.predicates.model import ALWAYS_FALSE, BoundLeaf, BoundPredicate, Constant, Operator, leaves
from app.predicates.verdicts import Verdict
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, Value, parse_type
from app.types.binary_row.row import serialize_row
from benchmarks.avro_schemas import MANIFEST_LIST
from tests.examples import examples
from tests.planning.strategies import FIELDS, NAME, RATIO, pool, predicates, rows
from tests.row_matches import matches
from tests.tables import EMPTY_ROW, MadeTable, avro, entry, names_of, no_statistics, open_service

KEYS = (NAME, RATIO)


class Partitioned(NamedTuple):
    """A table with a file in each partition, in some order, and the values of these."""

    version: Version
    partitions: list[dict[int, Value | None]]


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partitioned]:
    root = tmp_path_factory.mktemp("warehouse")
    made = MadeTable.make(root, FIELDS, partitioned_by=KEYS)
    values = list(product(*((None, *pool(key.type)) for key in KEYS)))
    files = [
        entry(partition=serialize_row(row, [key.type for key in KEYS]), file_name=str(at), **no_statistics())
        for at, row in enumerate(values)
    ]
    made.commit(files[::2], files[1::2], [entry(partition=files[3].partition, file_name="another")])
    order = [*values[::2], *values[1::2], values[3]]
    with closing(open_service(root)) as service:
        yield Partitioned(
            made.version(service), [dict(zip((key.id for key in KEYS), row, strict=True)) for row in order]
        )


def inside(predicate: BoundPredicate, partition: dict[int, Value | None]) -> BoundPredicate:
    on_partitions = any(
        isinstance(leaf, BoundLeaf) and leaf.field.id in partition for leaf in leaves(predicate)
    )
    return decided_inside(predicate, partition) if on_partitions else predicate


@pytest.mark.parametrize("explain", [False, True])
@given(predicate=predicates(with_unknown=True))
@examples(60)
def test_each_file_has_the_filter_of_its_partition(
    partitioned: Partitioned, predicate: BoundPredicate, explain: bool
) -> None:
    files = partitioned.version.files()
    state = PlanState.start(files, files.all(), predicate, explain=explain)

    prune_partitions(state, partitioned.version)

    expected = [inside(predicate, partition) for partition in partitioned.partitions]
    left = [at for at, each in enumerate(expected) if each != ALWAYS_FALSE]
    assert state.left().tolist() == left
    found = {file: each for each, members in state.by_predicate(files.all()) for file in members.tolist()}
    assert [found[file] for file in range(len(files))] == expected
    steps = {decision(code) for code in state.decisions(files.all()).tolist() if code > 0}
    on_partitions = any(isinstance(leaf, BoundLeaf) and leaf.field in KEYS for leaf in leaves(predicate))
    assert steps <= {SkipStep.PARTITION if on_partitions else SkipStep.STATISTICS}
    if state.explanation is not None:
        explained = state.explanation.of(files.all())
        assert [bool(steps) for steps in explained] == [file not in left for file in range(len(files))]


def test_only_asked_files_are_left_out(partitioned: Partitioned) -> None:
    files = partitioned.version.files()
    nothing = BoundLeaf(Operator.EQUAL, NAME, (b"no partition has this name",))
    state = PlanState.start(files, files.all()[3:5], nothing, explain=False)

    prune_partitions(state, partitioned.version)

    assert not len(state.left())
    assert (state.skips != 0).nonzero()[0].tolist() == [3, 4]


DAY = DataField(0, "day", parse_type("INT"))
REGION = DataField(1, "region", parse_type("STRING"))
ID = DataField(2, "id", parse_type("INT"))
PARTITIONED = (DAY, REGION)
NUMBERS = count()


def partition(day: int | None, region: bytes | None = b"eu") -> bytes:
    return serialize_row([day, region], [field.type for field in PARTITIONED])


def file(number: int, day: int | None, region: bytes | None = b"eu", **changes: Any) -> ManifestEntry:
    changes = no_statistics() | changes
    return entry(partition=partition(day, region), file_name=f"data-{number}", **changes)


def make(root: Path, *manifests: Sequence[ManifestEntry], **options: str) -> MadeTable:
    primary_key = [*PARTITIONED, ID] if options else []
    made = MadeTable.make(
        root, [*PARTITIONED, ID], PARTITIONED, primary_key, options, name=f"made_{next(NUMBERS)}"
    )
    made.commit(*manifests)
    return made


@pytest.fixture
def of_days(tmp_path: Path) -> MadeTable:
    """Three manifests: of days 1 and 2, of day 3, and of day 2 in which a file of day 1 is removed."""
    removed = replace(file(0, 1), kind=FileKind.DELETE)
    return make(tmp_path, [file(0, 1), file(1, 1), file(2, 2)], [file(3, 3)], [removed, file(4, 2)])


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[Callable[[], IndexService]]:
    opened: list[IndexService] = []

    def open_one() -> IndexService:
        opened.append(open_service(tmp_path))
        return opened[-1]

    yield open_one
    for service in opened:
        service.close()


def forget_all_but(made: MadeTable, *manifests: int) -> None:
    """Take manifests away, so that whoever reads them fails."""
    for path in made.directory.glob("manifest/manifest-1-*"):
        if int(path.name.rpartition("-")[2]) not in manifests:
            path.unlink()


def test_manifests_of_other_partitions_are_not_read(
    of_days: MadeTable, cold: Callable[[], IndexService]
) -> None:
    forget_all_but(of_days, 1)

    plan = of_days.plan(cold(), "day = 3 AND id = 7")

    assert names_of(plan.files) == ["data-3"]
    assert (plan.summary.manifests_total, plan.summary.manifests_skipped) == (3, 2)


def test_totals_come_from_the_lists_and_the_snapshot(
    of_days: MadeTable, cold: Callable[[], IndexService]
) -> None:
    summary = of_days.plan(cold(), "day = 3").summary

    assert (summary.files_total, summary.files_kept, summary.rows_total) == (4, 1, 40)
    assert summary.skipped_by == {SkipStep.PARTITION: 3}
    assert summary.bytes_total == 100, "of the one manifest that was read"


@pytest.mark.parametrize(
    "asked", [{"totals": True}, {"explain": True}, {"files": ("data-3", "data-1")}, {"written": "id = 3"}]
)
def test_everything_is_read_where_the_answer_is_about_everything(
    of_days: MadeTable, cold: Callable[[], IndexService], asked: dict[str, Any]
) -> None:
    summary = of_days.plan(cold(), **{"written": "day = 3", **asked}).summary

    assert summary.manifests_skipped == 0
    assert summary.bytes_total == (200 if "files" in asked else 400)


def test_nulls_have_no_bounds_and_are_found(tmp_path: Path, cold: Callable[[], IndexService]) -> None:
    made = make(tmp_path, [file(0, None)], [file(1, 1), file(2, None)], [file(3, 5)])
    forget_all_but(made, 0, 1)

    plan = made.plan(cold(), "day IS NULL")

    assert names_of(plan.files) == ["data-0", "data-2"]


def test_files_that_readers_do_not_see_count_whatever_is_read(
    tmp_path: Path, cold: Callable[[], IndexService]
) -> None:
    made = make(
        tmp_path,
        [file(0, 1, level=0), file(1, 1, level=1)],
        [file(2, 2, level=0), file(3, 2, level=1)],
        **{"deletion-vectors.enabled": "true", "bucket": "1"},
    )

    few = made.plan(cold(), "day = 1").summary
    every = made.plan(cold(), "day = 1", totals=True).summary
    unfiltered = made.plan(cold(), None).summary

    assert few.manifests_skipped == 1
    assert few.files_total == every.files_total == unfiltered.files_total == 4
    assert few.rows_total == every.rows_total == unfiltered.rows_total == 40
    assert (few.files_kept, few.files_invisible, few.skipped_by) == (1, 1, {SkipStep.PARTITION: 2})
    assert (every.files_kept, every.files_invisible, every.skipped_by) == (1, 1, {SkipStep.PARTITION: 2})
    assert (few.bytes_total, every.bytes_total, unfiltered.bytes_total) == (200, 400, 400)


def test_every_file_that_counts_as_skipped_is_explained(
    tmp_path: Path, cold: Callable[[], IndexService]
) -> None:
    made = make(
        tmp_path,
        [file(0, 1, level=0), file(1, 1, level=1)],
        [file(2, 2, level=0), file(3, 2, level=1)],
        **{"deletion-vectors.enabled": "true", "bucket": "1"},
    )

    for written, kept, skipped, invisible in (("day = 1", 1, 2, 1), ("day = 3", 0, 4, 0)):
        plans = [made.plan(cold(), written, explain=explain) for explain in (False, True)]
        for summary in (each.summary for each in plans):
            assert (summary.files_kept, summary.files_skipped) == (kept, skipped)
            assert (summary.files_invisible, summary.files_total) == (invisible, 4)
        explained = plans[1].skipped_files
        assert len(explained) == skipped
        assert {each.reason for each in explained} == {SkipStep.PARTITION}
        assert all(each.explain and each.explain[-1].outcome == "skip" for each in explained)


def test_bytes_leave_out_files_whose_removal_is_not_read(
    tmp_path: Path, cold: Callable[[], IndexService]
) -> None:
    """The manifest that holds day 2 has files of day 1, too, which the other one removes."""
    old = [file(number, 1) for number in range(5)]
    made = make(tmp_path, [*old, file(5, 2)], [replace(each, kind=FileKind.DELETE) for each in old])

    few = made.plan(cold(), "day = 2").summary

    assert few.manifests_skipped == 1
    assert few.bytes_total == made.plan(cold(), "day = 2", totals=True).summary.bytes_total == 100


def test_damaged_bounds_keep_their_manifests(of_days: MadeTable, cold: Callable[[], IndexService]) -> None:
    path = of_days.directory / "manifest" / "manifest-list-delta-1"
    with path.open("rb") as file_:
        records: list[Any] = list(fastavro.reader(file_))
    records[0]["_PARTITION_STATS"]["_MAX_VALUES"] = EMPTY_ROW
    path.write_bytes(avro(records, MANIFEST_LIST))

    plan = of_days.plan(cold(), "day = 3")

    assert names_of(plan.files) == ["data-3"]
    assert plan.summary.manifests_skipped == 0
    [warning] = plan.warnings
    assert "partition bounds of manifest-1-0: expected a row of 2 fields" in warning


def test_without_a_count_of_rows_everything_is_read(
    of_days: MadeTable, cold: Callable[[], IndexService]
) -> None:
    snapshot = of_days.directory / "snapshot" / "snapshot-1"
    snapshot.write_text(snapshot.read_text().replace('"totalRecordCount"', '"otherCount"'))

    assert of_days.plan(cold(), "day = 3").summary.manifests_skipped == 0


DAYS, REGIONS = st.sampled_from([None, 1, 2, 3, 4]), st.sampled_from([None, b"", b"eu", b"us"])
LITERALS = st.sampled_from(["1", "2", "3", "4"])
LEAVES = st.one_of(
    st.builds("day {} {}".format, st.sampled_from(["=", "<>", "<", ">=", "<=>"]), LITERALS),
    st.builds("day IN ({}, {})".format, LITERALS, LITERALS),
    st.builds("day NOT BETWEEN {} AND {}".format, LITERALS, LITERALS),
    st.builds("region {}".format, st.sampled_from(["= 'eu'", "LIKE 'u%'", "IS NULL", "IS NOT NULL", "> ''"])),
    st.just("id = 5"),
)
FILTERS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds("({} AND {})".format, parts, parts),
        st.builds("({} OR {})".format, parts, parts),
        st.builds("NOT ({})".format, parts),
    ),
    max_leaves=4,
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[ManifestEntry]]:
    """Manifests that add files, and remove some of those that earlier ones have added."""
    manifests: list[list[ManifestEntry]] = []
    there: list[ManifestEntry] = []
    for at in range(draw(st.integers(1, 5))):
        places = draw(st.lists(st.tuples(DAYS, REGIONS), max_size=3))
        added = [file(10 * at + number, *place) for number, place in enumerate(places)]
        gone = draw(st.lists(st.sampled_from(there), unique=True, max_size=2)) if there else []
        there = [each for each in there if each not in gone] + added
        manifests.append([*added, *(replace(each, kind=FileKind.DELETE) for each in gone)])
    return manifests


@examples(60)
@given(manifests=histories(), written=FILTERS)
def test_the_same_is_kept_as_by_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, manifests: list[list[ManifestEntry]], written: str
) -> None:
    """Whatever was planned before."""
    root = tmp_path_factory.mktemp("warehouse")
    made = make(root, *manifests)
    with closing(open_service(root)) as cold, closing(open_service(root)) as warm:
        whole = made.plan(warm, written, totals=True)
        found = made.plan(cold, written)
        again = made.plan(warm, written)

    assert names_of(found.files) == names_of(again.files) == names_of(whole.files)
    assert found.summary == again.summary
    assert found.files.array("number").tolist() == again.files.array("number").tolist()
    assert _counts(found) == _counts(whole)
    assert found.summary.bytes_kept <= found.summary.bytes_total <= whole.summary.bytes_total


def _counts(plan: Plan) -> dict[str, Any]:
    summary = plan.summary
    return {
        "files": (summary.files_total, summary.files_kept, summary.files_skipped),
        "rows": (summary.rows_total, summary.rows_selected),
        "steps": dict(summary.skipped_by),
    }


def decided_inside(predicate: BoundPredicate, partition: dict[int, Any]) -> BoundPredicate:
    """Return filter inside of a partition, each of its tests on partition columns decided by brute force."""
    tests = [each for each in leaves(predicate) if isinstance(each, BoundLeaf)]
    return specialise(
        predicate,
        {
            id(test): Verdict.ALL if matches(test, partition) else Verdict.NONE
            for test in tests
            if test.field.id in partition
        },
    )


def field_ids(predicate: BoundPredicate) -> set[int]:
    return {each.field.id for each in leaves(predicate) if isinstance(each, BoundLeaf)}


_SOME_IDS = st.sets(st.sampled_from([field.id for field in FIELDS])).map(frozenset)


@given(predicate=predicates(with_unknown=True), row=rows(), partition_ids=_SOME_IDS)
def test_inside_its_partition_a_row_is_judged_as_before(
    predicate: BoundPredicate, row: dict[int, Any], partition_ids: frozenset[int]
) -> None:
    partition = {each: row[each] for each in partition_ids}

    assert matches(decided_inside(predicate, partition), row) is matches(predicate, row)


@given(predicate=predicates(), row=rows(), partition_ids=_SOME_IDS)
def test_no_partition_column_is_left(
    predicate: BoundPredicate, row: dict[int, Any], partition_ids: frozenset[int]
) -> None:
    left = decided_inside(predicate, {each: row[each] for each in partition_ids})

    assert not field_ids(left) & partition_ids
    if field_ids(predicate) <= partition_ids:
        assert isinstance(left, Constant)


@given(predicate=predicates(with_unknown=True), row=rows(), kept_ids=_SOME_IDS)
def test_what_satisfies_the_filter_satisfies_its_part_on_some_columns(
    predicate: BoundPredicate, row: dict[int, Any], kept_ids: frozenset[int]
) -> None:
    part = only_on(predicate, kept_ids)

    assert field_ids(part) <= kept_ids
    if matches(predicate, row) is not False:
        assert matches(part, {each: row[each] for each in kept_ids}) is True


@given(predicate=predicates(), row=rows())
def test_the_part_on_all_columns_is_the_filter(predicate: BoundPredicate, row: dict[int, Any]) -> None:
    assert matches(only_on(predicate, frozenset(range(len(FIELDS)))), row) is matches(predicate, row)
