"""Timing, the growth and the table, of workloads that do next to nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.plans import COMPARED, LARGEST
from benchmarks.ratios import ratios
from benchmarks.report import FIRST, report, split
from benchmarks.runner import measure, percentile
from benchmarks.workload import Figure, Measured, Note, Suite, Target, Unit, Workload

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

    told = report(figures, notes, "command", 1)

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
    text = report([Figure("work", 1_000, Unit.MILLISECONDS, value, target=target)], [], "make bench", 60)

    cells = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert cells[0] == "work"
    assert cells[-1] == met


def test_rows_that_users_ask_about_come_first_and_all_others_in_the_second_file() -> None:
    figures = [
        Figure("other", 1, Unit.TIMES, 1.0),
        *(Figure(f"{name}; 5 calls", size, Unit.TIMES, 1.0) for name, size in reversed(FIRST)),
        Figure(FIRST[0][0], FIRST[0][1] + 1, Unit.TIMES, 1.0),
    ]

    first, others = split(figures)

    assert [(figure.name.partition(";")[0], figure.size) for figure in first] == list(FIRST)
    assert others == [figures[0], figures[-1]]


def test_the_written_results_are_split_so() -> None:
    def rows(name: str) -> list[tuple[str, int]]:
        lines = (BENCHMARKS / name).read_text().splitlines()
        cells = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")][2:]
        return [(work.strip().partition(";")[0], int(size.replace(",", ""))) for work, size, *_ in cells]

    assert set(rows("RESULTS.md")) <= set(FIRST)
    assert rows("RESULTS.md") == [row for row in FIRST if row in rows("RESULTS.md")]
    assert set(FIRST).isdisjoint(rows("ALL-RESULTS.md"))


def test_notes_and_circumstances_stand_below_the_table() -> None:
    text = report([Figure("work", 1, Unit.TIMES, 1.0)], [Note("no peers")], "make bench", 60)

    assert "\n- no peers\n- machine: " in text
    assert text.endswith("- command: `make bench`\n")
