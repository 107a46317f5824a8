"""Services that come and go over one disk cache and one shared cache plan as one that has neither.

Between them the table is committed to and rolled back, entries are damaged, and releases change.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.file_index import container
from app.file_index.index_kinds import KINDS
from app.planning.request.limits import CacheBytes
from app.planning.service import IndexService
from app.storage import RetryPolicy, Warehouse
from app.storage.disk.disk_tier import DiskTier
from app.storage.shared_tier import SharedTier
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types import DataField, parse_type
from benchmarks.synthetic import write_snapshot
from tests.storage.disk.damaged_entries import invert
from tests.tables import MadeTable, entry, names_of, no_statistics, open_service, payload, statistics

ID, CAT = (DataField(at, name, parse_type("INT")) for at, name in enumerate(("id", "cat")))
ROWS = 4
STEPS = 14
_SEEDS = (0, 1, 4, 5, 6, 7)
"""Those that draw other bounds, together every pair of them."""
FILTERS = ("id = {}", "cat = {}", "id > {} AND cat = {}", "id IN ({}, {})", "cat < {} OR id = {}")


@dataclass
class Table:
    made: MadeTable
    random: Random
    versions: list[list[Any]] = field(default_factory=list)
    written: Counter[str] = field(default_factory=Counter)
    files: dict[str, ManifestEntry] = field(default_factory=dict)

    def commit(self) -> None:
        """Add a manifest of new files, which may remove older ones; its files have names of their own."""
        entries = [self._added() for _ in range(self.random.choice((1, 3, 20, 40)))]
        listed = self.versions[-1] if self.versions else []
        gone = self.random.sample(sorted(self.files), min(len(self.files), self.random.choice((0, 0, 2))))
        entries += [ManifestEntry(FileKind.DELETE, *self._identity(self.files[name])) for name in gone]
        self.written["manifest"] += 1
        manifest = self.made._write_manifest(f"manifest-{self.written['manifest']}", entries)  # noqa: SLF001
        self.versions.append([*listed, manifest])
        self.files |= {each.file.file_name: each for each in entries if each.kind is FileKind.ADD}
        self._publish()

    def roll_back(self) -> None:
        """Roll back to the version before. The next commit has the number under other names."""
        if len(self.versions) > 1:
            number = len(self.versions)
            self.versions.pop()
            (self.made.directory / "snapshot" / f"snapshot-{number}").unlink()
            (self.made.directory / "snapshot" / "LATEST").write_text(str(number - 1))

    def _publish(self) -> None:
        number, directory = len(self.versions), self.made.directory
        write_snapshot(directory, number, self.versions[-1], [], rows=ROWS)
        path = directory / "snapshot" / f"snapshot-{number}"
        snapshot = json.loads(path.read_bytes())
        self.written["lists"] += 1
        for member in ("baseManifestList", "deltaManifestList"):
            unique = f"manifest-list-{member}-{self.written['lists']}"
            (directory / "manifest" / snapshot[member]).rename(directory / "manifest" / unique)
            snapshot[member] = unique
        path.write_text(json.dumps(snapshot))

    def _identity(self, added: ManifestEntry) -> tuple[Any, ...]:
        return added.partition, added.bucket, added.total_buckets, added.file

    def _added(self) -> ManifestEntry:
        self.written["file"] += 1
        name = f"file-{self.written['file']}"
        ids, cats = ([self.random.randrange(30) for _ in range(ROWS)] for _ in range(2))
        known = statistics({ID: ids, CAT: cats}) if self.random.random() < 0.3 else no_statistics()
        kinds = {each: self.random.choice([*KINDS.values(), None]) for each in (ID, CAT)}
        index = container.write(
            {
                column.name: [(kind, payload(kind, values, column))]
                for (column, kind), values in zip(kinds.items(), (ids, cats), strict=True)
                if kind is not None
            }
        )
        # Some are larger than what is kept of a file as a whole.
        form = self.random.choice(("embedded", "beside", "beside", "large", "none"))
        stored = None if form == "none" else index + bytes(10_000 * (form == "large"))
        file = entry(file_name=name, row_count=ROWS, embedded_index=stored, **known)
        return self.made.beside(file) if form in ("beside", "large") else file


@dataclass
class Machine:
    """A disk cache and a shared cache, and services that open both."""

    root: Path
    random: Random

    @contextmanager
    def service(self) -> Iterator[IndexService]:
        room = self.random.choice((1, 20_000, 1 << 20, 1 << 28))
        disk = DiskTier(self.root / "disk", self.random.choice((20_000, 200_000, 1 << 30)))
        store = Warehouse("shared", str(self.root / "shared"), retry=RetryPolicy(attempts=1))
        shared = SharedTier(store, b"0123456789abcdef")
        caches = CacheBytes(manifests=room, file_indexes=self.random.choice((1, 20_000, 1 << 28)), plans=0)
        has_disk, has_store = self.random.choice(((True, True), (True, False), (False, True), (False, False)))
        with closing(
            open_service(
                self.root / "warehouse",
                disk=disk if has_disk else None,
                shared=shared if has_store else None,
                cache_bytes=caches,
            )
        ) as service:
            yield service
            shared.flush()
            shared.close()

    def damage(self) -> None:
        """Replace some entries: what holds them open goes on with what it had."""
        change: Callable[[bytes], bytes] = self.random.choice(
            (invert, lambda content: content[: len(content) // 2], lambda _: b"", self._flipped)
        )
        for directory in ("disk", "shared"):
            entries = sorted(path for path in (self.root / directory).rglob("*") if path.is_file())
            for path in self.random.sample(entries, len(entries) // 3):
                content = path.read_bytes()
                path.unlink()
                path.write_bytes(change(content))

    def _flipped(self, content: bytes) -> bytes:
        at = self.random.randrange(len(content)) if content else 0
        return content[:at] + invert(content[at : at + 1]) + content[at + 1 :]


def outcome(made: MadeTable, service: IndexService, written: str | None) -> tuple[Any, ...]:
    plan = made.plan(service, written)
    warnings = [each for each in plan.warnings if "PAIMON_INDEX_MEMORY_BYTES" not in each]
    return names_of(plan.files), plan.summary, warnings


@pytest.mark.long
@pytest.mark.parametrize("seed", _SEEDS)
def test_plans_are_those_of_a_service_without_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)  # noqa: S311
    monkeypatch.setattr("app.planning.side_files.indexes._LEAST_SHARED", random.choice((1, 2, 16)))
    monkeypatch.setattr("app.table.metadata._SHARED_FILES", 1)
    monkeypatch.setattr("app.planning.version.version_files.LEAST_FILES", random.choice((1, 10_000)))
    root = tmp_path / "warehouse"
    root.mkdir()
    table, machine = Table(MadeTable.make(root, [ID, CAT]), random), Machine(tmp_path, random)
    formats = random.sample(range(1_000), 2)

    def release() -> None:
        number = random.choice(formats)
        for module in ("app.storage.disk.disk_tier.FORMAT", "app.storage.shared_tier.FORMAT"):
            monkeypatch.setattr(module, number)

    table.commit()
    for _ in range(STEPS):
        for act in random.choices((table.commit, table.roll_back, machine.damage, release), k=2):
            act()
        numbers = partial(random.randrange, 30)
        filters = [None, *(each.format(numbers(), numbers()) for each in random.sample(FILTERS, 3))]
        with machine.service() as service:
            if random.random() < 0.3:
                service.caches.warm(table.made.version(service), at_once=True)
            found = [outcome(table.made, service, each) for each in filters]
            table.commit()
            later = [outcome(table.made, service, each) for each in filters]
        with closing(open_service(root)) as plain:
            assert later == [outcome(table.made, plain, each) for each in filters]
        table.roll_back()
        with closing(open_service(root)) as plain:
            assert found == [outcome(table.made, plain, each) for each in filters]
