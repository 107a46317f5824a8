"""Any history of a table, read by two replicas: each answer is that of a version that was the latest then.

Commits are made by our own committer. Rollbacks, expiry, tags and drops are made as the engine leaves them.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from app.errors import NotFoundError
from app.file_index.index_kinds import BITMAP
from app.planning.plan.answers import Plan
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import PlanRequest, SnapshotSelector
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.storage.disk.disk_tier import DiskTier
from app.table.commits import Changes, CommitKind
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, parse_type
from tests.copied_tables import open_table
from tests.examples import examples
from tests.tables import MadeTable, file_of, open_service

NUMBER: Final = DataField(0, "number", parse_type("INT"))
HOUR: Final = 3_600_000
NAME: Final = "made"
SMALL: Final = CacheBytes(*(1 << 12,) * 6)

Content: TypeAlias = "frozenset[tuple[str, tuple[int, ...]]]"
"""The files of a version, each with its rows."""

ROWS = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


class Histories(RuleBasedStateMachine):
    """A table, what its versions have to be, and two replicas that plan it."""

    versions = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="paimon-index-histories-"))
        self.made: MadeTable | None = None
        self.files = 0
        self.snapshots: dict[int, Content] = {}
        self.tags: dict[str, Content] = {}
        self.latest: list[Content] = []
        self.replicas = [self._start(0), self._start(1)]

    def teardown(self) -> None:
        for replica in self.replicas:
            replica.close()
        shutil.rmtree(self.root)

    @initialize()
    def create(self) -> None:
        self._create()

    @rule(added=st.lists(ROWS, min_size=1, max_size=3), removed=st.integers(0, 2))
    def commit(self, added: list[tuple[int, ...]], removed: int) -> None:
        there = sorted(self._now())
        gone = dict(there[:removed])
        new = []
        for rows in added:
            self.files += 1
            new.append((f"data-{self.files}.parquet", rows))
        entries = [*(_entry(*each, FileKind.ADD) for each in new)]
        entries += [_entry(name, rows, FileKind.DELETE) for name, rows in gone.items()]
        kind = CommitKind.OVERWRITE if gone else CommitKind.APPEND
        number = open_table(self.root, NAME).committer.commit(Changes(kind, tuple(entries)))
        self._becomes_latest(number, frozenset([*new, *there[removed:]]))

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule(data=st.data(), deletes_manifests=st.booleans())
    def roll_back(self, data: st.DataObject, *, deletes_manifests: bool) -> None:
        """Later snapshots go, and their numbers come again."""
        target = data.draw(st.sampled_from(sorted(self.snapshots)[:-1]))
        for number in [each for each in self.snapshots if each > target]:
            self._delete_snapshot(number, with_lists=deletes_manifests)
        (self._directory / "snapshot" / "LATEST").write_text(str(target))
        self.latest.append(self.snapshots[target])

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule(deletes_manifests=st.booleans())
    def expire(self, *, deletes_manifests: bool) -> None:
        self._delete_snapshot(min(self.snapshots), with_lists=deletes_manifests)
        (self._directory / "snapshot" / "EARLIEST").write_text(str(min(self.snapshots)))

    @precondition(lambda self: self.snapshots)
    @rule(name=st.sampled_from("ab"), data=st.data())
    def tag(self, name: str, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.snapshots)))
        (self._directory / "tag").mkdir(exist_ok=True)
        shutil.copy(self._snapshot(number), self._directory / "tag" / f"tag-{name}")
        self.tags[name] = self.snapshots[number]

    @precondition(lambda self: self.tags)
    @rule()
    def delete_tag(self) -> None:
        name, _ = self.tags.popitem()
        (self._directory / "tag" / f"tag-{name}").unlink()

    @rule()
    def drop_and_create_again(self) -> None:
        shutil.rmtree(self._directory)
        self.snapshots.clear()
        self.tags.clear()
        self._create()

    @precondition(lambda self: self.snapshots)
    @rule(hours=st.sampled_from([-30, 30]))
    def step_the_clock(self, hours: int) -> None:
        """Have the writer's clock wrong when the latest snapshot was made, and lose a hint."""
        path = self._snapshot(max(self.snapshots))
        document = orjson.loads(path.read_bytes())
        document["timeMillis"] += hours * HOUR
        path.write_bytes(orjson.dumps(document))
        (self._directory / "snapshot" / "LATEST").unlink(missing_ok=True)

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        self.replicas[which].close()
        self.replicas[which] = self._start(which)

    @rule(which=st.integers(0, 1))
    def press(self, which: int) -> None:
        self.replicas[which].caches.clear()

    @rule(which=st.integers(0, 1), number=st.none() | st.integers(0, 4))
    def read_the_latest(self, which: int, number: int | None) -> None:
        assert self._read(which, number) == _matching(self._now(), number)

    @rule(which=st.integers(0, 1), number=st.none() | st.integers(0, 4))
    def read_what_was_the_latest(self, which: int, number: int | None) -> None:
        found = self._read(which, number, max_staleness_ms=HOUR)
        assert found in [_matching(content, number) for content in self.latest]

    @rule(which=st.integers(0, 1), snapshot=st.integers(1, 8), number=st.integers(0, 4))
    def read_a_snapshot(self, which: int, snapshot: int, number: int) -> None:
        if snapshot in self.snapshots:
            found = self._read(which, number, snapshot_id=snapshot)
            assert found == _matching(self.snapshots[snapshot], number)
        else:
            with pytest.raises(NotFoundError):
                self._read(which, number, snapshot_id=snapshot)

    @rule(which=st.integers(0, 1), name=st.sampled_from("ab"), number=st.integers(0, 4))
    def read_a_tag(self, which: int, name: str, number: int) -> None:
        if name in self.tags:
            assert self._read(which, number, tag=name) == _matching(self.tags[name], number)
        else:
            with pytest.raises(NotFoundError):
                self._read(which, number, tag=name)

    @rule(target=versions, which=st.integers(0, 1))
    def begin_to_read(self, which: int) -> tuple[IndexService, Version, Content]:
        service = self.replicas[which]
        return service, service.resolve(self._ref, SnapshotSelector()), self._now()

    @rule(begun=consumes(versions), number=st.none() | st.integers(0, 4))
    def read_on(self, begun: tuple[IndexService, Version, Content], number: int | None) -> None:
        """Of that version, or told that it has gone."""
        service, version, content = begun
        if service not in self.replicas:
            return
        try:
            plan = service.plan(version, _request(number))
        except NotFoundError:
            assert content not in self.snapshots.values()
        else:
            assert _rows(plan) == _matching(content, number)

    @invariant()
    def both_replicas_agree(self) -> None:
        assert self._read(0, 1) == self._read(1, 1)

    def _start(self, which: int) -> IndexService:
        disk = DiskTier(self.root / "disk", 1 << 24) if which == 0 else None
        return open_service(self.root, disk=disk, cache_bytes=SMALL if which else None)

    def _create(self) -> None:
        self.made = MadeTable.make(self.root, [NUMBER], name=NAME)
        self.latest.append(frozenset())

    def _read(self, which: int, number: int | None, **place: Any) -> dict[str, set[int]]:
        return _rows(self.replicas[which].plan(self._ref, _request(number, **place)))

    def _now(self) -> Content:
        return self.snapshots[max(self.snapshots)] if self.snapshots else frozenset()

    def _becomes_latest(self, number: int, content: Content) -> None:
        assert number == max(self.snapshots, default=0) + 1
        self.snapshots[number] = content
        self.latest.append(content)

    def _delete_snapshot(self, number: int, *, with_lists: bool) -> None:
        path = self._snapshot(number)
        document = orjson.loads(path.read_bytes())
        content = self.snapshots.pop(number)
        path.unlink()
        if with_lists and content not in self.tags.values():
            # Those of the next snapshot are its own; manifests are shared, and stay.
            (self._directory / "manifest" / document["deltaManifestList"]).unlink()
            (self._directory / "manifest" / document["baseManifestList"]).unlink()

    def _snapshot(self, number: int) -> Path:
        return self._directory / "snapshot" / f"snapshot-{number}"

    @property
    def _directory(self) -> Path:
        assert self.made is not None
        return self.made.directory

    @property
    def _ref(self) -> Any:
        assert self.made is not None
        return self.made.ref


def _request(number: int | None, **place: Any) -> PlanRequest:
    written = None if number is None else f"number = {number}"
    return PlanRequest(filter=written, **place)


def _entry(name: str, rows: tuple[int, ...], kind: FileKind) -> ManifestEntry:
    return replace(file_of(name, {NUMBER: rows}, BITMAP), kind=kind)


def _rows(plan: Plan) -> dict[str, set[int]]:
    return {
        file.file_name: set(range(file.row_count) if file.selection is None else file.selection)
        for file in plan.files
    }


def _matching(content: Content, number: int | None) -> dict[str, set[int]]:
    found = {
        name: {at for at, value in enumerate(rows) if number is None or value == number}
        for name, rows in content
    }
    return {name: rows for name, rows in found.items() if rows}


Histories.TestCase.settings = examples(40, stateful_step_count=30)
TestHistories = Histories.TestCase
