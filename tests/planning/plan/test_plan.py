"""The files of a plan: a sequence that says what their manifests say, and keeps none of these alive."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import BitMap

from app.file_index.answers import Rows
from app.file_index.index_kinds import BITMAP
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import ExplainStep, FilePlan, KeepReason, SkipStep
from app.planning.plan.state import PlanState, decision
from app.planning.request.requests import SelectionForm
from app.planning.service import IndexService
from app.planning.version.files import FileColumns, Files
from app.predicates.model import ALWAYS_FALSE, ALWAYS_TRUE, Unknown
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTable, entry, file_of, manifest, names_of, open_service

DAY, NUMBER = DataField(0, "day", parse_type("INT")), DataField(1, "number", parse_type("INT"))
ROWS = 1000
OUTSIDE = "s3://elsewhere/outside.orc"


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    """Files of two partitions in two manifests; every third row of each has the number 1."""
    numbers = {NUMBER: [row % 3 for row in range(ROWS)]}
    rows = [serialize_row([day], [DAY.type]) for day in (7, None)]
    files = [
        file_of(
            f"data-{at}.parquet",
            numbers,
            BITMAP,
            bounded=False,
            partition=rows[at % 2],
            bucket=at,
            file_size=10 + at,
            level=at,
            min_sequence_number=at,
            max_sequence_number=at + 9,
            external_path=OUTSIDE if at == 3 else None,
        )
        for at in range(4)
    ]
    made = MadeTable.make(tmp_path, [DAY, NUMBER], partitioned_by=[DAY])
    made.commit(files[:3], files[3:])
    return made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    with closing(open_service(tmp_path)) as service:
        yield service


def test_each_file_is_described_as_its_manifest_does(made: MadeTable, service: IndexService) -> None:
    version = made.version(service)
    plan = made.plan(service, "number = 1")

    assert len(plan.files) == 4
    for at, file in enumerate(plan.files):
        written = version.files().entry(at)
        assert isinstance(file, FilePlan)
        assert (file.file_name, file.file_size, file.row_count) == (f"data-{at}.parquet", 10 + at, ROWS)
        assert (file.level, file.bucket, file.total_buckets, file.schema_id) == (at, at, -1, 0)
        assert (file.min_sequence_number, file.max_sequence_number) == (at, at + 9)
        assert (file.format, file.partition) == ("parquet", {"day": None if at % 2 else 7})
        assert file.path == version.source.data.data_file(written)
        assert (file.reason, file.raw_convertible, file.merge_group) == (KeepReason.MATCHED, True, None)
        assert (file.residual, file.deletion, file.explain) == (False, None, None)
        assert file.selection is not None
        assert set(file.selection) == set(range(1, ROWS, 3))
        assert file.selected_rows == len(file.selection)
    assert plan.files[3].path == OUTSIDE


@pytest.mark.parametrize(
    ("stored", "uri"), [("/data/outside.orc", "file:///data/outside.orc"), (OUTSIDE, OUTSIDE)]
)
def test_an_external_path_without_a_scheme_is_a_uri_where_these_are_requested(
    tmp_path: Path, stored: str, uri: str
) -> None:
    made = MadeTable.make(tmp_path, [NUMBER])
    made.commit([file_of("a.orc", {NUMBER: [1]}, external_path=stored)])
    with closing(open_service(tmp_path)) as service:
        assert made.plan(service).files[0].path == stored
        assert made.plan(service, uris=True).files[0].path == uri


def test_files_are_a_sequence(made: MadeTable, service: IndexService) -> None:
    files = made.plan(service).files
    listed = list(files)

    assert names_of(listed) == [f"data-{at}.parquet" for at in range(4)]
    assert files[-1] == files[3] == listed[3]
    assert files[1:3] == listed[1:3]
    assert files[::-2] == listed[::-2]
    assert files[9:] == files[3:1] == []
    assert list(reversed(files)) == listed[::-1]
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            files[beyond]


@pytest.mark.parametrize("written", [None, "number = 1", "day = 7"])
def test_a_plan_keeps_no_manifest_alive(made: MadeTable, service: IndexService, written: str | None) -> None:
    plan = made.plan(service, written, explain=True)
    held = [weakref.ref(manifest.file_sizes) for manifest in made.version(service).manifests()]
    before = [repr(file) for file in plan.files]

    service.caches.clear()
    gc.collect()

    assert [reference() for reference in held] == [None, None]
    assert [repr(file) for file in plan.files] == before


def test_a_plan_weighs_what_it_gives_out(made: MadeTable, service: IndexService) -> None:
    def plan(written: str, form: SelectionForm, *, explain: bool = False) -> Plan:
        return made.plan(service, written, selection=form, explain=explain)

    counted = plan("number = 1", SelectionForm.COUNT)
    with_rows = plan("number = 1", SelectionForm.BITMAP)
    fewer = plan("number = 1 AND day = 7", SelectionForm.BITMAP)
    explained = plan("number = 1", SelectionForm.COUNT, explain=True)

    assert with_rows.nbytes - counted.nbytes == 2 * 4 * len(range(1, ROWS, 3))
    assert counted.nbytes < fewer.nbytes < with_rows.nbytes
    assert explained.nbytes > counted.nbytes
    assert service.caches.statistics()["plans"]["bytes"] == sum(
        each.nbytes for each in (counted, with_rows, fewer, explained)
    )


COUNT = 5
ASKED = [0, 1, 3, 4]
SOME = st.sets(st.sampled_from(ASKED)).map(sorted)
CHANGES = st.lists(st.tuples(SOME, st.sampled_from([*SkipStep, *KeepReason])), max_size=6)


def start(*, explain: bool = False) -> PlanState:
    manifests = (manifest([entry(file_name=str(at), row_count=10 + at) for at in range(COUNT)]),)
    files = Files(FileColumns.of(manifests, [np.arange(COUNT)]), manifests)
    return PlanState.start(files, numbers(ASKED), ALWAYS_TRUE, explain=explain)


def numbers(files: list[int]) -> NDArray[np.int64]:
    return np.array(files, np.int64)


def test_at_first_every_asked_file_is_kept_for_want_of_a_filter() -> None:
    state = start()

    assert state.left().tolist() == ASKED
    assert state.rows_left.tolist() == [10, 11, 12, 13, 14]
    assert {decision(code) for code in state.decisions(numbers(ASKED)).tolist()} == {KeepReason.NO_FILTER}
    assert not state.is_exact(numbers(ASKED)).any()


@given(changes=CHANGES, explain=st.booleans())
def test_the_last_word_on_each_file_counts(
    changes: list[tuple[list[int], SkipStep | KeepReason]], *, explain: bool
) -> None:
    state = start(explain=explain)
    decided: dict[int, SkipStep | KeepReason] = dict.fromkeys(ASKED, KeepReason.NO_FILTER)
    skips: dict[int, list[SkipStep]] = {file: [] for file in ASKED}
    for files, change in changes:
        if isinstance(change, SkipStep):
            state.skip(numbers(files), change, predicate=Unknown("why"))
            for file in files:
                skips[file].append(change)
        else:
            state.keep(numbers(files), change)
        decided.update(dict.fromkeys(files, change))

    assert [decision(code) for code in state.decisions(numbers(ASKED)).tolist()] == list(decided.values())
    left = [file for file, last in decided.items() if isinstance(last, KeepReason)]
    assert state.left().tolist() == left
    assert [file for part in state.left_in_parts() for file in part.tolist()] == left
    for step in SkipStep:
        assert state.skipped((step, None)) == list(decided.values()).count(step)
    assert state.is_left(numbers(ASKED)).tolist() == [file in left for file in ASKED]
    if explain:
        assert state.explanation is not None
        assert state.explanation.of(numbers(ASKED)) == [
            tuple(ExplainStep(step, "skip", predicate="why") for step, _ in groupby(skips[file]))
            for file in ASKED
        ]
    else:
        assert state.explanation is None


def test_every_file_is_decided_unless_some_are_named() -> None:
    state = PlanState.start(start().files, None, ALWAYS_TRUE, explain=True)

    state.skip(numbers([1, 2, 3]), SkipStep.STATISTICS)

    assert state.left().tolist() == [0, 4]
    assert [part.tolist() for part in state.left_in_parts(2)] == [[0], [], [4]]
    assert state.skipped((SkipStep.STATISTICS, None)) == 3
    assert state.explanation is not None
    assert list(map(bool, state.explanation.of(numbers([*range(COUNT)])))) == [False, True, True, True, False]


@pytest.mark.parametrize("what", [*KeepReason, *SkipStep])
def test_every_decision_has_a_code_of_its_own(what: KeepReason | SkipStep) -> None:
    state, file = start(), numbers([3])
    if isinstance(what, KeepReason):
        state.keep(file, what)
    else:
        state.skip(file, what)

    (code,) = state.decisions(file).tolist()
    assert decision(code) is what
    assert (code < 0) == isinstance(what, KeepReason)


def test_what_is_left_is_exact_by_statistics_or_by_rows_unless_it_merges() -> None:
    state = start()
    state.proven[[0, 1]] = True
    state.answers = {3: Rows(BitMap([1]), exact=True), 4: Rows(BitMap([1]), exact=False)}
    assert state.is_exact(numbers(ASKED)).tolist() == [True, True, True, False]

    state.raw_convertible[[1, 3]] = False
    assert state.is_exact(numbers(ASKED)).tolist() == [True, False, False, False]
    assert state.is_exact(numbers([3, 0])).tolist() == [False, True]


def test_files_are_cut_up_by_their_filter() -> None:
    state = start()
    state.predicates = [ALWAYS_TRUE, ALWAYS_FALSE]
    state.predicate_codes = np.array([0, 1, 0, 0, 1])

    found = [(predicate, files.tolist()) for predicate, files in state.by_predicate(numbers([0, 3, 4]))]

    assert found == [(ALWAYS_TRUE, [0, 3]), (ALWAYS_FALSE, [4])]
    assert not list(state.by_predicate(numbers([])))
