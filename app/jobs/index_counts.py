"""What a run made of each index: in how many files it was built, kept, or taken off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.jobs.index_tasks import BuildTask, BuiltFile
from app.options.map_keys import split_map_key
from app.planning.version.version import Version
from app.table.manifests.manifest_entry import ManifestEntry


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """What became of one index of one column, in numbers of files.

    Attributes:
        kind: of the index.
        column: the name that it has now, or ``column[key]``.
        built: had none of this kind before, or one that was built again.
        kept: had it, and have it.
        taken_off: had it, and have it no more.
    """

    kind: str
    column: str
    built: int
    kept: int
    taken_off: int


def count_indexes(
    version: Version, files: Iterable[tuple[ManifestEntry, BuildTask, BuiltFile]]
) -> tuple[IndexCounts, ...]:
    """Counts the indexes of files.

    Args:
        version: of the table.
        files: each with what was asked for and what came of it.
    """
    built: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    taken_off: Counter[tuple[str, str]] = Counter()
    for entry, task, file in files:
        wanted = task.wanted
        new = wanted if task.rebuild else wanted - file.before
        for counter, indexes in ((built, new), (kept, wanted - new), (taken_off, file.before - wanted)):
            counter.update(
                (kind, _name_now(version, entry.file.schema_id, column)) for column, kind in indexes
            )
    return tuple(
        IndexCounts(*index, built[index], kept[index], taken_off[index])
        for index in sorted(built.keys() | kept.keys() | taken_off.keys())
    )


def _name_now(version: Version, schema_id: int, name: str) -> str:
    """The name of a column of a file; the one that it had then, if it is there no more."""
    column, key = split_map_key(name)
    old = version.file_schema(schema_id).by_name.get(column)
    new = None if old is None else version.schema.by_id.get(old.id)
    now = column if new is None else new.name
    return now if key is None else f"{now}[{key}]"
