"""Pairs of a random table and a random condition: their plan held against the rows, and against other plans.

Every pair is planned once and held against every row. Then one thing is drawn that must not change the
answer, or may change it in one way only: another form of the request, a colder or smaller cache, less time,
a condition that means more or less. All of it follows from the seed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from app.planning.plan.answers import Plan
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SelectionForm, SortKey, TopN
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.storage.disk.disk_tier import DiskTier
from app.types import TypeRoot, to_json
from tests.proof.aggregated import aggregated
from tests.proof.columns import NULL
from tests.proof.conditions import (
    Condition,
    Single,
    both,
    either,
    is_null,
    negated,
    random_condition,
)
from tests.proof.making import Writer
from tests.proof.referee import Kept, Referee, WrongPlanError
from tests.proof.replicas import Replicas, warehouse_of
from tests.proof.tables import random_table
from tests.tables import MadeTable, open_service

_DISK_BYTES: Final = 1 << 28
_VARIED: Final = 0.25
"""The share of pairs beside which something else is tried."""
_SMALL: Final = CacheBytes(*(1 << 14,) * 6)
"""Caches that hold next to nothing."""


@dataclass
class Run:
    """Counts of a run.

    Attributes:
        pairs: plans of a condition that were held against the rows.
        variations: by name, how often one was drawn beside.
        skips: by step, how many files plans left out.
    """

    pairs: int = 0
    tables: int = 0
    variations: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)

    def add(self, other: Run) -> None:
        self.pairs += other.pairs
        self.tables += other.tables
        self.variations += other.variations
        self.skips += other.skips


@dataclass(eq=False)
class Subject:
    """A table that was written, and the services that plan it.

    Attributes:
        service: keeps what it reads.
        others: services that keep it in other ways, by name.
        replicas: servers that have it, too.
        run: where pairs are counted.
    """

    made: MadeTable
    referee: Referee
    service: IndexService
    version: Version
    others: Mapping[str, IndexService]
    replicas: Replicas
    run: Run

    def plan(self, condition: Condition | None, **asked: Any) -> Plan:
        """Return a plan of the condition in SQL, or in JSON where it has none."""
        return self.service.plan(self.version, self.request(condition, **asked))

    def request(self, condition: Condition | None, **asked: Any) -> PlanRequest:
        return PlanRequest(filter=_written(condition), **asked)

    def check(self, condition: Condition | None, **asked: Any) -> Kept:
        """Return a plan that was held against the rows."""
        plan = self.plan(condition, **asked)
        self.run.pairs += 1
        form = asked.get("selection", SelectionForm.BITMAP)
        exact = condition is None or condition.has_sql or not condition.pads
        return self.referee.check(plan, condition, form, exact=exact)


def make_subject(seed: str, root: Path, name: str, replicas: Replicas, run: Run, stack: ExitStack) -> Subject:
    """Return table of a seed, written to a warehouse below ``root``; what it needs ends with the stack."""
    rng = Random(seed)
    table = random_table(rng)
    warehouse = warehouse_of(root, engine=table.engine)

    def opened(**how: Any) -> IndexService:
        service = open_service(warehouse, engine_writes_only=table.engine, **how)
        stack.callback(service.close)
        return service

    service = opened()
    made = Writer.of(rng, table).write(warehouse, name, service)
    stack.callback(shutil.rmtree, made.directory)
    version = made.version(service)
    disk = root / f"disk of {name}"
    stack.callback(shutil.rmtree, disk, ignore_errors=True)
    others = {
        "small caches": opened(cache_bytes=_SMALL),
        "disk cache": opened(disk=DiskTier(disk, _DISK_BYTES)),
        "disk cache of another": opened(disk=DiskTier(disk, _DISK_BYTES), cache_bytes=_SMALL),
    }
    return Subject(made, Referee(table), service, version, others, replicas, run)


def check_table(
    seed: str, root: Path, name: str, pairs: int, replicas: Replicas, only: int | None = None
) -> tuple[Run, list[Exception]]:
    """Make the table of a seed, and plan it by many conditions.

    ``seed``: of table and conditions.
    ``root``: where the warehouses of the servers are.
    ``name``: of the table, which is not there yet.
    ``pairs``: how many conditions.
    ``replicas``: servers over these warehouses.
    ``only``: the number of the one condition that is wanted.

    Returns:
        What was counted, and what went wrong, at most one error; a note tells its condition.
    """
    run = Run(tables=1)
    with ExitStack() as stack:
        try:
            subject = make_subject(seed, root, name, replicas, run, stack)
            for number in range(pairs) if only is None else [only]:
                check_pair(Random(f"{seed} {number}"), subject, f"--table {seed!r} --only {number}")
        except Exception as error:  # noqa: BLE001 - told by the run
            error.add_note(f"table of seed {seed!r}")
            return run, [error]
    return run, []


def check_pair(rng: Random, subject: Subject, called: str) -> None:
    """One condition, and one drawn variation of it."""
    table = subject.referee.table
    often = (*table.partitioned_by, *table.key, *table.bucket_key)
    condition = random_condition(rng, table.present, often) if rng.random() < 0.98 else None
    if condition is not None and not condition.has_sql and condition.json is None:
        return
    shown = "all" if condition is None else condition.sql
    name = "alone"
    try:
        is_varied = rng.random() < _VARIED
        # Which rows match costs as much again as which files do.
        form = SelectionForm.BITMAP if is_varied or rng.random() < 0.3 else SelectionForm.NONE
        plan = subject.plan(condition, selection=form)
        kept = subject.referee.check(plan, condition, form, exact=_is_exact(condition))
        subject.run.pairs += 1
        subject.run.skips.update({str(step): count for step, count in plan.summary.skipped_by.items()})
        if is_varied:
            name, variation = _draw(rng, damaged=table.damaged)
            subject.run.variations[name] += 1
            variation(rng, subject, condition, kept)
    except Exception as error:
        error.add_note(f"{called}, {name}: {shown}; {table.options}")
        raise


def _written(condition: Condition | None) -> Any:
    """Return the condition in SQL, or in JSON where it has none."""
    return None if condition is None else condition.sql if condition.has_sql else condition.json


def _is_exact(condition: Condition | None) -> bool:
    return condition is None or condition.has_sql or not condition.pads


def _same(found: Kept, expected: Kept) -> None:
    if found.files != expected.files:
        raise WrongPlanError(f"other files: {sorted(found.files ^ expected.files)}")
    if not np.array_equal(found.rows, expected.rows):
        raise WrongPlanError(f"other rows: {np.flatnonzero(found.rows != expected.rows).tolist()}")


def _within(found: Kept, expected: Kept) -> None:
    if not found.files <= expected.files:
        raise WrongPlanError(f"more files: {sorted(found.files - expected.files)}")


def _in_json(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    if condition is None or condition.json is None or not condition.has_sql:
        return
    plan = subject.service.plan(subject.version, PlanRequest(filter=condition.json))  # type: ignore[arg-type]
    found = subject.referee.check(plan, condition, SelectionForm.BITMAP, exact=not condition.pads)
    if not condition.pads:
        _same(found, kept)


def _explained(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    plan = subject.plan(condition, explain=True)
    _same(subject.referee.check(plan, condition, SelectionForm.BITMAP, exact=_is_exact(condition)), kept)
    summary = plan.summary
    if len(plan.files) + len(plan.skipped_files) + summary.files_invisible != summary.files_total:
        raise WrongPlanError("kept, skipped and invisible files are not all files")


def _in_form(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    form = rng.choice(list(SelectionForm))
    found = subject.check(condition, selection=form)
    if form is SelectionForm.NONE:
        _within(kept, found)
    elif found.files != kept.files:
        raise WrongPlanError(f"other files: {sorted(found.files ^ kept.files)}")
    elif form is not SelectionForm.COUNT:
        _same(found, kept)


def _cold(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    subject.service.caches.clear()
    version = subject.made.version(subject.service)
    plan = subject.service.plan(version, subject.request(condition))
    _same(subject.referee.kept(plan, SelectionForm.BITMAP), kept)


def _kept_otherwise(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    service = subject.others[rng.choice(list(subject.others))]
    if rng.random() < 0.2:
        service.caches.clear()
    plan = service.plan(subject.made.ref, subject.request(condition, totals=rng.random() < 0.5))
    _same(subject.referee.kept(plan, SelectionForm.BITMAP), kept)


def _hurried(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    service = subject.others["small caches"]
    service.caches.clear()
    plan = service.plan(subject.made.ref, subject.request(condition, budget_ms=rng.choice([0, 1])))
    _within(kept, subject.referee.check(plan, condition, SelectionForm.BITMAP, exact=_is_exact(condition)))


def _listed(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    at = rng.randrange(len(subject.referee.table.present))
    column = subject.referee.table.present[at]
    test = Single(at, column, "IN", tuple(value for value in column.read[1:] if rng.random() < 0.5))
    if condition is None or column.field.type.root is TypeRoot.CHAR or not test.literals:
        return
    data_type = column.field.type
    listed = [to_json(value, data_type) for value in test.literals]
    plan = subject.plan(condition, in_lists={column.field.name: listed})
    found = subject.referee.check(
        plan, both(condition, test), SelectionForm.BITMAP, exact=_is_exact(condition)
    )
    _within(found, kept)


def _doubly_negated(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    if condition is not None and condition.has_sql:
        _same(subject.check(negated(negated(condition))), kept)


def _with_tautology(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    if condition is None or not condition.has_sql:
        return
    columns = subject.referee.table.present
    at = rng.randrange(len(columns))
    always = either(is_null(at, columns[at]), Single(at, columns[at], "IS_NOT_NULL", ()))
    _same(subject.check(both(condition, always)), kept)


def _narrowed(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that a condition ANDed with another one keeps no more than either."""
    other = random_condition(rng, subject.referee.table.present)
    if condition is None or not (condition.has_sql and other.has_sql):
        return
    _within(subject.check(both(condition, other)), kept)


def _widened(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that what two conditions keep, either of them keeps."""
    other = random_condition(rng, subject.referee.table.present)
    if condition is None or not (condition.has_sql and other.has_sql):
        return
    _within(kept, subject.check(either(condition, other)))


def _all_or_nothing(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that a condition, its NOT, and its NULL together keep all rows."""
    if condition is None or not condition.has_sql:
        return
    table = subject.referee.table
    against = subject.check(negated(condition))
    if not table.merges:
        truths = condition.truths(table.codes)
        open_rows = (truths == 1) | kept.rows | against.rows
        if (table.live & ~open_rows).any():
            raise WrongPlanError("a row is neither among those of a condition nor of its NOT")


def _one_by_one(rng: Random, subject: Subject, _: Condition | None, __: Kept) -> None:
    """IN keeps what its values keep one by one."""
    columns = subject.referee.table.present
    at = rng.randrange(len(columns))
    values = [value for value in columns[at].read[1:] if rng.random() < 0.5]
    if not values:
        return
    listed = subject.check(Single(at, columns[at], "IN", tuple(values)))
    for value in values[:4]:
        _within(subject.check(Single(at, columns[at], "EQUAL", (value,))), listed)


def _by_partition(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that a condition keeps what it keeps of each partition."""
    table = subject.referee.table
    if condition is None or not table.partitioned_by or not condition.has_sql:
        return
    at = table.partitioned_by[0]
    column = table.present[at]
    codes = sorted({file.partition[0] for file in table.files})
    parts = [
        is_null(at, column) if code == NULL else Single(at, column, "EQUAL", (column.read[code],))
        for code in codes
    ]
    if not all(part.has_sql for part in parts):
        return
    found = [subject.check(both(condition, part)) for part in parts]
    if frozenset().union(*(each.files for each in found)) != kept.files:
        raise WrongPlanError("partitions one by one keep other files")


def _of_some_files(rng: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that a request that names files decides about them as one that names none."""
    names = [name for name in subject.referee.numbers if rng.random() < 0.5]
    plan = subject.plan(condition, files=tuple(names))
    found = subject.referee.kept(plan, SelectionForm.BITMAP)
    expected = kept.files & {subject.referee.numbers[name] for name in names}
    # Where rows are joined, a vector of a file that is not named may leave out the files of its rows.
    if found.files != expected and not (subject.referee.table.joins_rows and found.files >= expected):
        raise WrongPlanError(f"other files: {sorted(found.files ^ expected)}")


def _limited(rng: Random, subject: Subject, condition: Condition | None, _: Kept) -> None:
    limit = rng.choice([0, 1, 2, 5, 20, 100])
    plan = subject.plan(condition, limit=limit, selection=SelectionForm.POSITIONS)
    subject.referee.check_first(plan, condition, limit, [])


def _ordered(rng: Random, subject: Subject, condition: Condition | None, _: Kept) -> None:
    columns = subject.referee.table.present
    order = []
    for at in rng.sample(range(len(columns)), rng.choice([1, 1, 2])):
        key = SortKey(
            column=columns[at].field.name,
            direction=("asc", "desc")[rng.random() < 0.5],
            nulls=("last", "first")[rng.random() < 0.5],
        )
        order.append((at, key))
    limit = rng.choice([0, 1, 2, 5, 20])
    asked = TopN(order_by=tuple(key for _, key in order), limit=limit)
    plan = subject.plan(condition, top_n=asked, selection=SelectionForm.POSITIONS)
    subject.referee.check_first(plan, condition, limit, order)


def _deletions_told(_: Random, subject: Subject, condition: Condition | None, kept: Kept) -> None:
    """Check that deleted rows of kept files are reported."""
    table = subject.referee.table
    plan = subject.plan(condition, deletions=SelectionForm.POSITIONS)
    _same(subject.referee.kept(plan, SelectionForm.BITMAP), kept)
    for at, name in enumerate(plan.files.array("file_name").tolist()):
        number = subject.referee.numbers[name.decode()]
        found = set(plan.files.deleted.get(at, ()))
        if found != table.files[number].deleted:
            raise WrongPlanError(f"deleted rows of {name}: {sorted(found)}")


def _over_http(rng: Random, subject: Subject, condition: Condition | None, _: Kept) -> None:
    """Servers answer as the service does in this process, first rows included."""
    body: dict[str, Any] = {}
    asked: dict[str, Any] = {}
    if condition is not None:
        body["filter"] = asked["filter"] = _written(condition)
    match rng.choice(["all", "all", "limit", "top_n"]):
        case "limit":
            body["limit"] = asked["limit"] = rng.choice([0, 1, 5])
        case "top_n":
            name = rng.choice(subject.referee.table.present).field.name
            body["top_n"] = {"order_by": [{"column": name}], "limit": 3}
            asked["top_n"] = TopN(order_by=(SortKey(column=name),), limit=3)
    plan = subject.service.plan(subject.version, PlanRequest(selection=SelectionForm.POSITIONS, **asked))
    expected = {
        each.file_name: None if each.selection is None else list(each.selection) for each in plan.files
    }
    warehouse = warehouse_of(Path(), engine=subject.referee.table.engine).name
    found = subject.replicas.plan(rng, warehouse, subject.made.ref.table, body)
    if found != expected:
        raise WrongPlanError(f"over HTTP {found}, expected {expected}")


Variation = Callable[[Random, Subject, "Condition | None", Kept], None]

_OF_MEANING: Final[dict[str, Variation]] = {
    "with a list": _listed,
    "NOT NOT": _doubly_negated,
    "AND a tautology": _with_tautology,
    "AND another": _narrowed,
    "OR another": _widened,
    "and its NOT": _all_or_nothing,
    "IN one by one": _one_by_one,
    "by partition": _by_partition,
}
"""Other conditions. Which indexes these ask may differ, so that a damaged one is met by one of them alone."""
_OF_FORM: Final[dict[str, Variation]] = {
    "in JSON": _in_json,
    "explained": _explained,
    "in another form": _in_form,
    "of some files": _of_some_files,
    "with LIMIT": _limited,
    "with ORDER BY and LIMIT": _ordered,
    "with deletions": _deletions_told,
    "aggregated": aggregated,
}
_DEAR: Final[dict[str, Variation]] = {
    "with cold caches": _cold,
    "from other caches": _kept_otherwise,
    "in a hurry": _hurried,
    "over HTTP": _over_http,
}


def _draw(rng: Random, *, damaged: bool) -> tuple[str, Variation]:
    often = _OF_FORM if damaged else _OF_MEANING | _OF_FORM
    weights = [3] * len(often) + [1] * len(_DEAR)
    return rng.choices([*often.items(), *_DEAR.items()], weights)[0]
