"""Runs a history, and holds what the service answers of it to what the engine reads and Spark says.

The engine reads all rows at a selector, with nothing pushed down. They are a plain view in Spark, which says
of each condition which of them match, with ANSI and without. No file and no row that matches may be left out,
what is said to match has to, and nothing that was deleted comes back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, Final

import httpx

from app.errors import FilterError, PaimonIndexError, UnsupportedFormatError
from app.library import (
    DeletionsRequest,
    IndexService,
    Plan,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    TableRef,
)
from tests.referee.histories import History
from tests.referee.literals import Column, cell, condition, filter_text, named
from tests.referee.processes import READER, Processes

DATABASE: Final = "referee"
WAREHOUSES: Final = ("any", "engine")
"""Names of the one warehouse; of the other one it is known that the Java engine alone writes to it."""
_SELECTORS: Final = 4
_REFUSALS: Final = {"filter": FilterError, "unsupported-format": UnsupportedFormatError}


class WrongAnswerError(AssertionError):
    """An answer that a reader must not go by."""


@dataclass(frozen=True)
class Selector:
    """A version, as the service and as the engine name it."""

    asked: SnapshotSelector
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.asked.branch or 'main'} {dict(self.options) or 'newest'}"


@dataclass(frozen=True)
class Rows:
    """What the engine reads: columns, and values of each row with file and position (None if it merges)."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[Any, ...]]
    files: frozenset[str]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Rows:
        columns = [(name, written) for name, written in answer["columns"]]
        return cls(columns, [tuple(row) for row in answer["rows"]], frozenset(answer["files"]))

    @property
    def positions(self) -> dict[str, set[int]]:
        """Positions of rows by file, of those that are read straight."""
        found: dict[str, set[int]] = {}
        for row in self.rows:
            if row[-2] is not None:
                found.setdefault(row[-2], set()).add(row[-1])
        return found

    def described(self) -> list[Column]:
        """Columns with some values of each."""
        found: list[Column] = []
        for at, (name, written) in enumerate(self.columns):
            texts = sorted({row[at] for row in self.rows if row[at] is not None})
            found.append((name, written, texts[:: max(1, len(texts) // 8)]))
        return found


@dataclass(frozen=True)
class Kept:
    straight: bool
    residual: bool
    selected_rows: int
    row_count: int
    selection: frozenset[int] | None
    first_row_id: int | None
    path: str


@dataclass
class Run:
    """Counts of a run: cases, those without a truth, refusals of the service, and what went wrong."""

    cases: int = 0
    tables: int = 0
    untold: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    files: int = 0

    def add(self, other: Run) -> None:
        for name in ("cases", "tables", "left_out", "files"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("untold", "refused", "steps"):
            getattr(self, name).update(getattr(other, name))


@dataclass
class Failure:
    selector: Selector
    condition: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.message}\n at {self.selector}: {self.condition}"


class Trial:
    """Of one table."""

    def __init__(self, processes: Processes, service: IndexService, http: httpx.Client, name: str) -> None:
        self.run = Run(tables=1)
        self._processes = processes
        self._service = service
        self._http = http
        self._name = name
        self._directory = processes.warehouse / f"{DATABASE}.db" / name
        self._zone = "UTC"
        self._is_made = True
        self._warehouse = WAREHOUSES[0]

    def make(self, history: History, rng: Random) -> Failure | None:
        """Take the steps; a failure if who follows the table's changes holds other files than it has."""
        error = self._ask(history.create).get("error")
        if error is not None:
            self.run.steps[f"create refused: {_short(error)}"] += 1
            self._is_made = False
            return None
        follower = Follower(self._http, self._name)
        follows = rng.random() < 0.4 and all(step["do"] != "times" for step in history.steps)
        for step in history.steps:
            error = self._take(step)
            self.run.steps[
                f"{step['writer']} {step['do']}{f' refused: {_short(error)}' if error else ''}"
            ] += 1
            if follows and rng.random() < 0.6:
                wrong = follower.follow()
                if wrong:
                    return Failure(Selector(SnapshotSelector()), None, wrong)
        return None

    def drop(self) -> None:
        self._processes.ask(READER, do="drop", table=self._name)

    def ask(
        self, history: History, rng: Random, conditions: int, only: str | None = None
    ) -> Iterator[Failure]:
        """Failures of questions that are drawn, or of one condition at every selector."""
        selectors = self._selectors(rng) if self._is_made else []
        if only is None:
            selectors = rng.sample(selectors, min(len(selectors), _SELECTORS))
        versions: dict[int, Rows] = {}
        for selector in selectors:
            self._zone = rng.choice(("UTC", history.zone))
            self._warehouse = rng.choice(WAREHOUSES if history.engine_only else WAREHOUSES[:1])
            answer = self._read(selector)
            if "error" in answer:
                self.run.untold[f"engine: {_short(answer['error'])}"] += 1
                continue
            rows = Rows.of(answer)
            texts = (
                [filter_text(rng, rows.described()) for _ in range(conditions)] if only is None else [only]
            )
            yield from self._check(selector, rows, [None, *texts], rng)
            if selector.asked.branch is None and selector.asked.snapshot_id is not None:
                versions[selector.asked.snapshot_id] = rows
        for first, last in pairwise(sorted(versions)):
            if versions[first].columns == versions[last].columns:
                text = only or filter_text(rng, versions[last].described())
                with self._failing(
                    Selector(SnapshotSelector(first), {"changes to": str(last)}), text
                ) as found:
                    self._hold_changes((first, last), (versions[first], versions[last]), text)
                yield from found

    def _take(self, step: Mapping[str, Any]) -> str | None:
        """Take a step; why it was refused."""
        match step["do"]:
            case "times":
                snapshots = self._directory / "snapshot"
                for path in snapshots.glob("snapshot-*"):
                    millis = step["millis"][int(path.name.partition("-")[2]) % len(step["millis"])]
                    path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": millis}))
                return None
            case "job":
                return self._job(Random(step["number"]))
        error: str | None = self._ask(step).get("error")
        return error

    def _job(self, rng: Random) -> str | None:
        """Run a job of ours over the table as it is."""
        answer = self._read(Selector(SnapshotSelector()))
        if "error" in answer:
            return str(answer["error"])
        rows = Rows.of(answer)
        columns = [each for each in rows.described() if not each[0].startswith("_")]
        arguments: dict[str, Any] = {"where": condition(rng, columns)}
        job = rng.choice(("delete", "build_index"))
        if job == "build_index":
            kind = rng.choice(("bitmap", "bloom-filter", "range-bitmap"))
            arguments = {"options": {f"file-index.{kind}.columns": rng.choice(columns)[0]}, "anyway": True}
        try:
            self._processes.jobs.run(job, self._processes.warehouse, f"{DATABASE}.{self._name}", **arguments)
        except (PaimonIndexError, TypeError, AttributeError) as error:
            return str(error)
        return None

    def _ask(self, step: Mapping[str, Any]) -> dict[str, Any]:
        request = {name: each for name, each in step.items() if name != "writer"}
        return self._processes.ask(step["writer"], table=self._name, **request)

    def _read(self, selector: Selector, **some: Sequence[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"branch": selector.asked.branch, "options": dict(selector.options)}
        return self._processes.ask(READER, do="read", table=self._name, **request, **some)

    def _selectors(self, rng: Random) -> list[Selector]:
        """Every way to name a version of the table."""
        found = []
        branches = [
            None,
            *sorted(path.name.removeprefix("branch-") for path in self._directory.glob("branch/*")),
        ]
        for branch in branches:
            directory = self._directory if branch is None else self._directory / "branch" / f"branch-{branch}"
            found.append(Selector(SnapshotSelector(branch=branch)))
            for path in sorted(directory.glob("snapshot/snapshot-*")):
                number = int(path.name.partition("-")[2])
                millis = json.loads(path.read_text())["timeMillis"] + rng.choice((0, 0, -1, 1, 700))
                found.append(
                    Selector(
                        SnapshotSelector(snapshot_id=number, branch=branch), {"scan.snapshot-id": str(number)}
                    )
                )
                found.append(
                    Selector(
                        SnapshotSelector(timestamp_millis=millis, branch=branch),
                        {"scan.timestamp-millis": str(millis)},
                    )
                )
            for path in sorted(directory.glob("tag/tag-*")):
                tag = path.name.removeprefix("tag-")
                found.append(Selector(SnapshotSelector(tag=tag, branch=branch), {"scan.tag-name": tag}))
        return found

    def _check(
        self, selector: Selector, rows: Rows, conditions: Sequence[str | None], rng: Random
    ) -> Iterator[Failure]:
        told = [each for each in conditions if each is not None]
        modes = [self._matching(rows, rows.rows, told, ansi=ansi) for ansi in (True, False)]
        for at, text in enumerate(conditions):
            if text is None:
                truths = [[True] * len(rows.rows)]
            else:
                truths = [truth for mode in modes if (truth := mode[at - 1]) is not None]
            if not truths:
                self.run.untold["Spark refuses the condition"] += 1
                continue
            with self._failing(selector, text) as found:
                self._hold(selector, rows, text, truths, rng)
            yield from found

    @contextmanager
    def _failing(self, selector: Selector, text: str | None) -> Iterator[list[Failure]]:
        """Count a case, and list what goes wrong in it."""
        self.run.cases += 1
        found: list[Failure] = []
        try:
            yield found
        except (FilterError, UnsupportedFormatError) as error:
            self.run.refused[re.sub(r"'.*'|\S*\d\S*|which is.*:", "?", _short(str(error)))] += 1
        except Exception as error:  # noqa: BLE001 - told by the run
            where = f"({self._zone}, {self._warehouse})"
            found.append(Failure(selector, text, f"{type(error).__name__}: {error} {where}"))

    def _matching(
        self, rows: Rows, some: Sequence[tuple[Any, ...]], conditions: Sequence[str], *, ansi: bool
    ) -> list[list[bool] | None]:
        """Which rows match each condition, by Spark; None where it refuses."""
        if not some:
            return [[] for _ in conditions]
        cells = ", ".join(
            "(" + ", ".join(cell(written, row[at]) for at, (_, written) in enumerate(rows.columns)) + ")"
            for row in some
        )
        columns = ", ".join(named(name) for name, _ in rows.columns)
        conf = {"spark.sql.ansi.enabled": str(ansi).lower(), "spark.sql.session.timeZone": self._zone}

        query = f"SELECT * FROM VALUES {cells} AS t({columns})"  # noqa: S608 - ours
        answer = self._processes.jobs.ask({"conf": conf, "rows": query, "tests": list(conditions)})
        truths: list[list[bool] | None] = answer["truths"]
        return truths or [None] * len(conditions)

    def _hold(
        self, selector: Selector, rows: Rows, text: str | None, truths: Sequence[Sequence[bool]], rng: Random
    ) -> None:
        """Raise WrongAnswerError where a plan is one that a reader must not go by."""
        form = rng.choice((SelectionForm.POSITIONS,) * 3 + (SelectionForm.NONE, SelectionForm.COUNT))
        kept, warnings = self._plan(selector, text, form, over_http=rng.random() < 0.15)
        self.run.files += len(rows.files)
        self.run.left_out += len(rows.files) - len(kept)
        for each in kept.values():
            # pypaimon up to 2.0.0 may name a directory by another value than the partition that it records.
            is_told = any(line.startswith("no directory exists") for line in warnings)
            if not is_told and not (self._processes.warehouse / each.path).exists():
                raise WrongAnswerError(f"no file is at {each.path}")
        for truth in truths:
            _hold_straight(rows, kept, truth, form)
            _hold_joined(rows, kept, truth)
        self._hold_merged(selector, rows, kept, text, truths)
        if text is None:
            self._hold_deletions(selector, kept, rows.positions)

    def _hold_merged(
        self,
        selector: Selector,
        rows: Rows,
        kept: Mapping[str, Kept],
        text: str | None,
        truths: Sequence[Sequence[bool]],
    ) -> None:
        """Have the engine read, of what it merges, what a plan keeps: the same rows match."""
        others = rows.files - rows.positions.keys()
        straight = [name for name, file in kept.items() if file.straight and name in others]
        merged = [name for name, file in kept.items() if not file.straight and name in others]
        every = [row for row in rows.rows if row[-2] is None]
        if not every or (not straight and len(merged) == len(others)):
            return
        answer = self._read(selector, straight=straight, merged=merged)
        if "error" in answer:
            raise WrongAnswerError(f"what is kept cannot be read: {answer['error']}")
        found = Counter(
            row[:-2]
            for row in Rows.of(answer).rows
            if row[-2] is None or (selection := kept[row[-2]].selection) is None or row[-1] in selection
        )
        for truth in truths:
            wanted = Counter(
                row[:-2] for row, matches in zip(rows.rows, truth, strict=True) if matches and row[-2] is None
            )
            if wanted - found:
                raise WrongAnswerError(f"lost {dict(wanted - found)}")
        more = [(*row, None, None) for row in (found - Counter(row[:-2] for row in every)).elements()]
        for ansi in (True, False):
            (truth_of_more,) = self._matching(rows, more, [text or "TRUE"], ansi=ansi)
            if truth_of_more is not None and any(truth_of_more):
                raise WrongAnswerError(f"old rows come back: {more}")

    def _hold_deletions(
        self, selector: Selector, kept: Mapping[str, Kept], visible: Mapping[str, set[int]]
    ) -> None:
        """Raise WrongAnswerError unless rows that the engine leaves out of files are told as deleted."""
        ref = TableRef(self._warehouse, DATABASE, self._name)
        answer = self._service.deletions(self._service.resolve(ref, selector.asked), DeletionsRequest())
        told = {each.file_name: set(each.positions or ()) for each in answer.deletions}
        for name, positions in visible.items():
            expected = set(range(kept[name].row_count)) - positions
            if told.get(name, set()) != expected:
                raise WrongAnswerError(f"{name}: {told.get(name)} are told as deleted, expected {expected}")

    def _hold_changes(self, numbers: tuple[int, int], versions: tuple[Rows, Rows], text: str) -> None:
        """Raise WrongAnswerError where rows that came or went between versions are not told."""
        ref = TableRef(self._warehouse, DATABASE, self._name)
        before, after = (self._service.resolve(ref, SnapshotSelector(number)) for number in numbers)
        request = PlanRequest(filter=text, selection=SelectionForm.POSITIONS)
        changes = self._service.changes(before, after, request)
        sides = ((changes.added, versions[1], versions[0]), (changes.removed, versions[0], versions[1]))
        for plan, mine, other in sides:
            kept, both = _kept(plan), set(other.rows)
            # A file of both versions, whose rows merge in the other one, neither came nor went.
            merged = {None, *(other.files - other.positions.keys())}
            beside = [row for row in mine.rows if row[-2] not in merged and row not in both]
            for ansi in (True, False):
                (truth,) = self._matching(mine, beside, [text], ansi=ansi)
                for row, matches in zip(beside, truth or (), strict=truth is not None):
                    file = kept.get(row[-2])
                    if matches and (file is None or row[-1] not in (file.selection or (row[-1],))):
                        raise WrongAnswerError(f"{row} is not told")

    def _plan(
        self, selector: Selector, text: str | None, form: SelectionForm, *, over_http: bool
    ) -> tuple[dict[str, Kept], Sequence[str]]:
        if not over_http:
            ref = TableRef(self._warehouse, DATABASE, self._name)
            version = self._service.resolve(ref, selector.asked)
            request = PlanRequest(filter=text, selection=form)
            plan = self._service.plan(version, request)
            return _kept(plan), plan.warnings
        asked = {"filter": text, "selection": form.value}
        for name in ("snapshot_id", "tag", "timestamp_millis", "branch"):
            asked[name] = getattr(selector.asked, name)
        body = {name: each for name, each in asked.items() if each is not None}
        answer = self._http.post(
            f"/v1/{self._warehouse}/databases/{DATABASE}/tables/{self._name}/plan", json=body
        )
        if answer.status_code != httpx.codes.OK:
            problem = answer.json()
            raise _REFUSALS.get(problem["type"].rpartition(":")[2], WrongAnswerError)(problem["detail"])
        content = answer.json()
        kept = {
            file["file_name"]: Kept(
                file["raw_convertible"],
                file["residual"],
                file["selected_rows"],
                file["row_count"],
                None if file.get("selection") is None else frozenset(file["selection"]),
                file["first_row_id"],
                file["path"],
            )
            for file in content["files"]
        }
        return kept, content["warnings"]


def _kept(plan: Plan) -> dict[str, Kept]:
    return {
        file.file_name: Kept(
            file.raw_convertible,
            file.residual,
            file.selected_rows,
            file.row_count,
            None if file.selection is None else frozenset(file.selection),
            file.first_row_id,
            file.path,
        )
        for file in plan.files
    }


class Follower:
    """Follows a table by its changes, as docs/api.md says."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self._http = http
        self._path = f"/v1/{WAREHOUSES[0]}/databases/{DATABASE}/tables/{name}"
        self._token: str | None = None
        self._files: dict[str, Any] = {}

    def follow(self) -> str | None:
        """Take the next changes; what is wrong with the files that are held then."""
        body = {} if self._token is None else {"from_token": self._token}
        answer = self._http.post(f"{self._path}/changes", json=body)
        if answer.status_code != httpx.codes.OK:
            self._token = None
            return None
        told = answer.json()
        if self._token is None:
            if told["next_from_token"] is None:
                return None
            self._files = self._planned({"snapshot_id": told["snapshot_id"]})
        for file in told["removed"]:
            self._files.pop(file["file_name"], None)
        for file in told["added"]:
            self._files[file["file_name"]] = file["deletion"]
        self._token = told["next_from_token"]
        expected = self._planned({})
        if self._files == expected:
            return None
        return f"follows to {self._files}, the table has {expected}"

    def _planned(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(f"{self._path}/plan", json={**body, "page_size": 1_000})
        if answer.status_code != httpx.codes.OK:
            return self._files
        return {file["file_name"]: file["deletion"] for file in answer.json()["files"]}


def _short(message: str) -> str:
    """Return a message without what differs from table to table."""
    return message.splitlines()[0][:160] if message else ""


def _hold_straight(rows: Rows, kept: Mapping[str, Kept], truth: Sequence[bool], form: SelectionForm) -> None:
    """Raise WrongAnswerError where files that are read straight lose rows, or have others for matching."""
    told = form is SelectionForm.POSITIONS
    matching: dict[str, set[int]] = {}
    for row, matches in zip(rows.rows, truth, strict=True):
        if row[-2] is None:
            continue
        found = matching.setdefault(row[-2], set())
        if matches:
            found.add(row[-1])
            file = kept.get(row[-2])
            if file is None or (told and file.selection is not None and row[-1] not in file.selection):
                columns = [name for name, _ in rows.columns]
                raise WrongAnswerError(f"lost {dict(zip(columns, row[:-2], strict=True))}")
    visible = rows.positions
    for name in kept.keys() & visible.keys():
        file, found = kept[name], matching[name]
        if not file.straight:
            continue
        positions = file.selection
        if told and positions is None:
            positions = frozenset(range(file.row_count))
        if positions is not None and not positions <= (visible[name] if file.residual else found):
            raise WrongAnswerError(f"{name}: {sorted(positions)} are given, {sorted(found)} match")
        if form is SelectionForm.COUNT and not file.residual and file.selected_rows != len(found):
            raise WrongAnswerError(f"{name}: counts {file.selected_rows}, {len(found)} match")


def _hold_joined(rows: Rows, kept: Mapping[str, Kept], truth: Sequence[bool]) -> None:
    """Raise WrongAnswerError where a selection of files with joined columns lacks a row that matches."""
    names = [name for name, _ in rows.columns]
    selecting = [
        (file.first_row_id, file.first_row_id + file.row_count, file.selection)
        for file in kept.values()
        if not file.straight and file.first_row_id is not None and file.selection is not None
    ]
    if not selecting:
        return
    for row, matches in zip(rows.rows, truth, strict=True):
        if not matches or row[-2] is not None:
            continue
        row_id = int(row[names.index("_ROW_ID")])
        for first, stop, selection in selecting:
            if first <= row_id < stop and row_id - first not in selection:
                raise WrongAnswerError(f"lost the row of id {row_id}: {row}")
