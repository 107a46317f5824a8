"""Changes between two versions of a random table: files that went and came, options that were switched.

A token of the first version goes on with that version alone: where a rollback puts another snapshot in its
place, it is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.planning.plan.answers import Plan
from app.planning.request.requests import SelectionForm, SnapshotSelector
from app.planning.version.version import Version
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from tests.golden_tables import DATABASE
from tests.planning.copied_tables import golden_ref
from tests.planning.made_tables import MadeTable
from tests.proof.making import name_of
from tests.proof.referee import WrongPlanError
from tests.proof.replicas import warehouse_of
from tests.proof.tables import RandomTable

if TYPE_CHECKING:
    from tests.proof.conditions import Condition
    from tests.proof.pairs import Subject
    from tests.proof.referee import Kept

_GONE: Final = 409


@dataclass(frozen=True)
class _State:
    """A version as the rows have it.

    Attributes:
        table: the rows, under the options of the version.
        numbers: the files of the version in it, by name.
    """

    table: RandomTable
    numbers: Mapping[str, int]

    def deleted(self, name: str) -> frozenset[int]:
        """Positions that do not count."""
        has_vectors = self.table.options.get("deletion-vectors.enabled") == "true"
        return self.table.files[self.numbers[name]].deleted if has_vectors else frozenset()

    def visible(self) -> set[str]:
        """Names of the files with rows that readers see."""
        files = self.table.files
        return {
            name
            for name, number in self.numbers.items()
            if not self.table.hides(files[number]) and len(self.deleted(name)) < len(files[number])
        }

    def beside(self, other: _State) -> set[str]:
        """Those that another version lacks, or has with other vectors."""
        hidden = {name for name in other.numbers if other.table.hides(other.table.files[other.numbers[name]])}
        return {
            name
            for name in self.visible()
            if name not in other.numbers or name in hidden or self.deleted(name) != other.deleted(name)
        }

    def check(self, plan: Plan, condition: Condition | None, beside: set[str]) -> None:
        """Raises WrongPlanError unless a plan of some files has all of them that can have a row."""
        found = {name.decode() for name in plan.files.array("file_name").tolist()}
        if not found <= beside:
            raise WrongPlanError(f"files that both versions have: {sorted(found - beside)}")
        if condition is None and found != beside:
            raise WrongPlanError(f"files that are not told: {sorted(beside - found)}")
        if condition is None or self.table.merges:
            return
        matches = condition.truths(self.table.codes) == 2
        for name in beside - found:
            start = int(self.table.starts[self.numbers[name]])
            stop = int(self.table.starts[self.numbers[name] + 1])
            rows = [row for row in range(stop - start) if row not in self.deleted(name)]
            if matches[start:stop][rows].any():
                raise WrongPlanError(f"{name} is not told, though rows of it match")


def changed(rng: Random, subject: Subject, condition: Condition | None, _: Kept) -> None:
    """Raises WrongPlanError where changes are not those between the versions."""
    table = subject.referee.table
    if table.joins_rows:
        # A file of a group that lacks the others is none that a writer leaves.
        return
    made = _copied(subject.made, f"{subject.made.directory.name}_{rng.randrange(1 << 30)}")
    try:
        before, after = _commit(rng, subject, made)
        _compare(rng, subject, made, condition, (before, after))
    finally:
        shutil.rmtree(made.directory)


def _compare(
    rng: Random,
    subject: Subject,
    made: MadeTable,
    condition: Condition | None,
    states: tuple[_State, _State],
) -> None:
    before, after = states
    versions = [subject.service.resolve(made.ref, SnapshotSelector(number)) for number in (1, 2)]
    asked = subject.request(condition, selection=SelectionForm.COUNT)
    found = subject.service.changes(versions[0], versions[1], asked)
    after.check(found.added, condition, after.beside(before))
    before.check(found.removed, condition, before.beside(after))
    # The same over HTTP, by a token.
    warehouse = warehouse_of(Path(), engine=subject.referee.table.engine).name
    url = f"/v1/{warehouse}/databases/{DATABASE}/tables/{made.directory.name}/changes"
    http = rng.choice(subject.replicas.http)
    token = http.post(url, json={"snapshot_id": 1}).raise_for_status().json()["next_from_token"]
    body: dict[str, Any] = {"from_token": token, "snapshot_id": 2}
    if asked.filter is not None:
        body["filter"] = asked.filter
    told = http.post(url, json=body).raise_for_status().json()
    for name, plan in (("added", found.added), ("removed", found.removed)):
        names = [each["file_name"].encode() for each in told[name]]
        expected = plan.files.array("file_name").tolist()
        if names != expected:
            raise WrongPlanError(f"{name} over HTTP {names}, expected {expected}")
    _roll_back(made)
    status = http.post(url, json=body).status_code
    if status != _GONE:
        raise WrongPlanError(f"a token of a snapshot that is another one now has the answer {status}")


def _copied(made: MadeTable, name: str) -> MadeTable:
    directory = made.directory.with_name(name)
    shutil.copytree(made.directory, directory)
    return MadeTable(directory, golden_ref(name), made.partitioned_by)


def _commit(rng: Random, subject: Subject, made: MadeTable) -> tuple[_State, _State]:
    """Makes a second version: files go, or come back under other names; options are switched perhaps."""
    table = subject.referee.table
    numbers = {name_of(number, file): number for number, file in enumerate(table.files)}
    later = dict(numbers)
    entries = []
    for entry in _entries(subject.version):
        name = entry.file.file_name
        if rng.random() < 0.3:
            entries.append(replace(entry, kind=FileKind.DELETE))
            del later[name]
            if rng.random() < 0.5 and not table.files[numbers[name]].deleted:
                again = replace(entry.file, file_name=f"again-{name}")
                entries.append(replace(entry, file=again))
                later[again.file_name] = numbers[name]
    snapshots = made.directory / "snapshot"
    first = json.loads((snapshots / "snapshot-1").read_text())
    made.commit(entries)
    second = json.loads((snapshots / "snapshot-2").read_text())
    second |= {
        "baseManifestList": first["deltaManifestList"],
        "indexManifest": first.get("indexManifest"),
        "schemaId": table.schemas - 1,
    }
    options = dict(table.options)
    if rng.random() < 0.6:
        options |= _switched(options)
        newest = json.loads((made.directory / "schema" / f"schema-{table.schemas - 1}").read_text())
        second["schemaId"] = table.schemas
        document = {**newest, "id": table.schemas, "options": options}
        (made.directory / "schema" / f"schema-{table.schemas}").write_text(json.dumps(document))
    present = {name: value for name, value in second.items() if value is not None}
    (snapshots / "snapshot-2").write_text(json.dumps(present))
    under = replace(table, options=options, _reads={})
    under.finish()
    return _State(table, numbers), _State(under, later)


def _entries(version: Version) -> list[ManifestEntry]:
    """Those of all files, of which readers see some."""
    parts = [version.files(), version.hidden_files()]
    return [entry for files in parts if files is not None for entry in files.entries(np.arange(len(files)))]


def _switched(options: Mapping[str, str]) -> dict[str, str]:
    """What decides which files readers see, and which vectors count, the other way round."""
    is_on = options.get("deletion-vectors.enabled") == "true"
    return {"deletion-vectors.enabled": str(not is_on).lower(), "deletion-vectors.merge-on-read": "false"}


def _roll_back(made: MadeTable) -> None:
    """Puts another snapshot in the place of the first one, as a rollback and a new commit do."""
    path = made.directory / "snapshot" / "snapshot-1"
    path.write_text(json.dumps({**json.loads(path.read_text()), "commitUser": "another"}))
