"""The benchmark's tables are real: the service plans them, and keeps the files that it has to."""

import io
import itertools
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from app.planning.request.requests import PlanRequest, SelectionForm
from benchmarks.avro_files import long
from benchmarks.events import FILES_PER_DAY, FIRST_PRIVATE_CATEGORY, Indexed, Layout, ids, scores
from benchmarks.manifest_records import day_of, file_name, lowest_number
from benchmarks.plans import COMPARED, LARGEST
from benchmarks.ratios import ratios
from benchmarks.report import SHOWN, report, shown
from benchmarks.runner import measure, percentile
from benchmarks.services import EVENTS, open_service
from benchmarks.synthetic import table_directory, write_manifest, write_snapshot, write_table
from benchmarks.workload import Figure, Measured, Note, Suite, Target, Unit, Workload

FILES = 250
BODIES = 7
KEYS = Layout(Indexed.KEYS, bodies=2)
KEYS_BESIDE = Layout(Indexed.KEYS, is_embedded=False, bodies=2)
VALUES = Layout(Indexed.VALUES, bodies=BODIES)
VALUES_BESIDE = Layout(Indexed.VALUES, is_embedded=False, bodies=BODIES)
NO_INDEX = Layout(Indexed.NOTHING)


def kept(warehouse: Path, written: str | None) -> list[int]:
    numbers = {file_name(number): number for number in range(2 * FILES)}
    with closing(open_service(warehouse)) as service:
        plan = service.plan(EVENTS, PlanRequest(filter=written, selection=SelectionForm.NONE))
    assert plan.warnings == ()
    return [numbers[file.file_name] for file in plan.files]


def entries(warehouse: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start in range(0, FILES, FILES // 10):
        with (table_directory(warehouse) / "manifest" / f"manifest-{start}").open("rb") as file:
            found += fastavro.reader(file)  # type: ignore[arg-type] # records are dictionaries here
    return found


@pytest.mark.parametrize("layout", [NO_INDEX, KEYS, KEYS_BESIDE, VALUES, VALUES_BESIDE])
def test_every_file_is_planned_without_a_filter(layout: Layout, tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", layout, FILES)

    assert kept(tmp_path / "warehouse", None) == list(range(FILES))


@pytest.mark.parametrize("layout", [VALUES, VALUES_BESIDE])
def test_a_private_category_keeps_the_files_of_its_index(layout: Layout, tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", layout, FILES)

    found = kept(tmp_path / "warehouse", f"cat = {FIRST_PRIVATE_CATEGORY + 3}")

    assert found == list(range(3, FILES, BODIES))


@pytest.mark.parametrize("layout", [VALUES, VALUES_BESIDE])
def test_a_range_of_scores_keeps_the_files_that_have_one_inside(layout: Layout, tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", layout, FILES)
    low, high = 200_000, 230_000
    inside = [any(low <= score <= high for score in scores(body, layout.distinct)) for body in range(BODIES)]

    found = kept(tmp_path / "warehouse", f"score BETWEEN {low} AND {high}")

    assert 0 < sum(inside) < BODIES
    assert found == [number for number in range(FILES) if inside[number % BODIES]]


@pytest.mark.parametrize("layout", [KEYS, KEYS_BESIDE])
def test_an_id_keeps_the_files_of_its_index(layout: Layout, tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", layout, FILES)

    # This one is no false positive of the other filter.
    assert kept(tmp_path / "warehouse", f"id = {ids(1)[0]}") == list(range(1, FILES, 2))


def test_days_and_numbers_are_those_of_the_statistics(tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", NO_INDEX, FILES)
    numbers = lowest_number(NO_INDEX, 3, np.arange(FILES))

    found = kept(tmp_path / "warehouse", "day = DATE '2020-01-02' AND c3 < 500000")

    on_that_day = range(FILES_PER_DAY, 2 * FILES_PER_DAY)
    assert found == [number for number in on_that_day if numbers[number] < 500_000]
    assert FILES_PER_DAY / 4 < len(found) < FILES_PER_DAY * 3 / 4


def test_records_are_read_by_the_library_that_did_not_write_them(tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", KEYS, FILES)

    found = entries(tmp_path / "warehouse")

    assert [entry["_FILE"]["_FILE_NAME"] for entry in found] == [file_name(number) for number in range(FILES)]
    assert all(1 << 20 <= entry["_FILE"]["_FILE_SIZE"] < 1 << 27 for entry in found)
    index = (tmp_path / "indexes" / "KEYS-20" / "000001.index").read_bytes()
    assert [entry["_FILE"]["_EMBEDDED_FILE_INDEX"] == index for entry in found] == [False, True] * (
        FILES // 2
    )


def test_side_files_lie_where_the_plan_says_that_data_files_do(tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", VALUES_BESIDE, FILES)
    with closing(open_service(tmp_path / "warehouse")) as service:
        files = service.plan(EVENTS, PlanRequest()).files

    assert all((tmp_path / "warehouse" / f"{file.path}.index").is_file() for file in files)


def test_a_further_snapshot_has_the_manifests_before_and_the_new_one(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    base = write_table(warehouse, NO_INDEX, FILES)
    added = write_manifest(warehouse, NO_INDEX, FILES, FILES + 5)

    write_snapshot(table_directory(warehouse), 2, base, [added], rows=(FILES + 5) * NO_INDEX.rows)

    assert kept(warehouse, None) == list(range(FILES + 5))


def test_partitions_of_a_manifest_are_those_of_its_files(tmp_path: Path) -> None:
    manifests = write_table(tmp_path / "warehouse", NO_INDEX, FILES)

    partitions = {entry["_PARTITION"] for entry in entries(tmp_path / "warehouse")}

    bounds = [manifest["_PARTITION_STATS"] for manifest in manifests]
    assert {each["_MIN_VALUES"] for each in bounds} | {each["_MAX_VALUES"] for each in bounds} == partitions
    assert len(partitions) == day_of(FILES - 1) - day_of(0) + 1


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 1 << 40, -(1 << 62)])
def test_numbers_are_encoded_as_the_library_does(number: int) -> None:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, "long", number)

    assert long(number) == encoded.getvalue()


NOWHERE = Path()
LATER = time.time() + 3600

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def suite(*items: Workload | Figure | Note) -> Suite:
    def give(_: Path) -> Iterator[Workload | Figure | Note]:
        yield from items

    return Suite("nothing", give)


def test_a_workload_is_run_once_before_and_then_as_often_as_it_may() -> None:
    calls: list[int] = []
    workload = Workload("append", 1, lambda: calls.append(1), runs=3)

    (figure,), _ = measure(suite(workload), NOWHERE, 60, LATER)

    assert figure.runs == 3
    assert len(calls) == 4


def test_a_cold_workload_is_not_warmed_up() -> None:
    numbers = itertools.count()
    workload = Workload("count", 1, lambda: next(numbers), is_cold=True)

    (figure,), _ = measure(suite(workload), NOWHERE, 0, LATER)

    assert (figure.runs, figure.kept) == (3, 1)


def test_a_run_may_say_itself_what_it_took() -> None:
    workload = Workload("part", 1, lambda: Measured(0.25, kept=4))

    (figure,), _ = measure(suite(workload), NOWHERE, 0, LATER)

    assert (figure.p50, figure.kept) == (250, 4)


def test_a_missed_target_is_explained() -> None:
    figures, notes = measure(
        suite(Workload("sorting", 7, lambda: sorted(range(1000)), target=Target(0))), NOWHERE, 0, LATER
    )
    assert "builtins.sorted" in {cost.function for cost in figures[0].costs}

    told = report(figures, figures, notes, "command", 1)

    assert "**sorting**, 7: " in told
    assert "`builtins.sorted`" in told


def test_whole_numbers_are_files_that_were_kept() -> None:
    numbers = iter([99, 1, 5, 7])
    workload = Workload("plan", 10, lambda: next(numbers), runs=3)

    (figure,), _ = measure(suite(workload), NOWHERE, 60, LATER)

    assert figure.kept == 5


def test_what_is_late_is_noted_instead() -> None:
    figures, (note,) = measure(suite(Workload("late", 7, list)), NOWHERE, 1, time.time() - 1)

    assert figures == []
    assert note.text == "late, 7: not measured, since the time was up"


def test_percentiles_are_the_nearest_rank() -> None:
    ordered = [float(number) for number in range(1, 101)]

    assert [percentile(ordered, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]
    assert percentile([3.0], 0.99) == 3.0


def test_growth_is_told_where_both_sizes_were_measured() -> None:
    def plan(name: str, size: int, median: float) -> Figure:
        return Figure(name, size, Unit.MILLISECONDS, median)

    found = list(ratios([plan("a", COMPARED, 2), plan("a", LARGEST, 24), plan("b", LARGEST, 1)]))

    assert [(each.name, each.p50, each.target) for each in found] == [
        ("growth by 10 x size: a", 12.0, Target(11))
    ]


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [(Target(10), 10.0, "yes"), (Target(10), 10.1, "NO"), (Target(300, is_ceiling=False), 299.0, "NO")],
)
def test_the_table_says_whether_targets_are_met(target: Target, value: float, met: str) -> None:
    figures = [Figure("work", 1_000, Unit.MILLISECONDS, value, target=target)]

    text = report(figures, figures, [], "make bench", 60)

    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells[0] == "work"
    assert cells[-1] == met


def test_the_page_has_its_rows_in_their_order_and_no_others() -> None:
    figures = [
        Figure("other", 1, Unit.TIMES, 1.0),
        *(Figure(f"{name}; 5 calls", size, Unit.TIMES, 1.0) for name, size in reversed(SHOWN)),
        Figure(SHOWN[0][0], SHOWN[0][1] + 1, Unit.TIMES, 1.0),
    ]

    rows = shown(figures)

    assert [(figure.name.partition(";")[0], figure.size) for figure in rows] == list(SHOWN)


def test_the_page_names_missed_targets_of_rows_that_it_does_not_show() -> None:
    missed = Figure("other", 1, Unit.MILLISECONDS, 2.0, target=Target(1.0))

    text = report([], [missed], [], "make bench", 60)

    assert "- **other**, 1: " in text


def test_the_written_results_have_these_rows() -> None:
    lines = (BENCHMARKS / "RESULTS.md").read_text().splitlines()
    cells = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")][2:]
    rows = [(work.strip().partition(";")[0], int(size.replace(",", ""))) for work, size, *_ in cells]

    assert rows == [row for row in SHOWN if row in rows]


def test_notes_and_circumstances_stand_below_the_table() -> None:
    figures = [Figure("work", 1, Unit.TIMES, 1.0)]

    text = report(figures, figures, [Note("no peers")], "make bench", 60)

    assert "\n- no peers\n- machine: " in text
    assert text.endswith("- command: `make bench`\n")
