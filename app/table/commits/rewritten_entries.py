"""Entries of data files that a commit writes anew, with what only their writers know.

A file whose metadata changes is removed and added under its name (:mod:`app.table.commits.changes`). Both
entries have every field of the one that is there: what a later release says of a data file holds for as long
as the file does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, TypeAlias

from app.table.avro.container import MAGIC
from app.table.avro.whole_records import Record, WholeRecords, has_unknown_fields, read_whole, united
from app.table.avro.writing import write_avro
from app.table.commits.changes import live_places
from app.table.commits.manifest_writing import MANIFEST, entry_record
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.table.records.expected import RecordOf

_File: TypeAlias = "tuple[bytes, int, str]"
"""Partition, bucket and name."""
_NOTHING: Final = WholeRecords(MANIFEST, [])


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenEntries:
    """Writes the entries of a commit.

    Attributes:
        records: those that are there of files that the commit removes, where they have more than is known.
    """

    records: Mapping[_File, Record] = field(default_factory=dict)
    fields: RecordOf = MANIFEST

    @classmethod
    def read(
        cls,
        entries: Iterable[ManifestEntry],
        manifests: Sequence[Manifest],
        read: Callable[[Sequence[int], Callable[[bytes], WholeRecords]], Sequence[WholeRecords]],
    ) -> RewrittenEntries:
        """What is there of the files of a commit."""
        places = live_places(manifests, [entry for entry in entries if entry.kind is FileKind.DELETE])
        files = read(list(places), _unknown_records)
        records = {
            _file(entry): whole.records[row]
            for rows, whole in zip(places.values(), files, strict=True)
            for row, entry in rows.items()
            if whole.records
        }
        return cls(records, reduce(united, (whole.fields for whole in files), MANIFEST))

    def write(self, entries: Iterable[ManifestEntry], compression: str) -> bytes:
        """A manifest, entries in their order."""
        whole = (_over(self.records.get(_file(entry), {}), entry_record(entry)) for entry in entries)
        return write_avro(whole, self.fields, compression)


def _unknown_records(content: bytes) -> WholeRecords:
    """The records of a manifest; none if all of their fields are known."""
    if content[: len(MAGIC)] != MAGIC or not has_unknown_fields(content, MANIFEST):
        return _NOTHING
    return read_whole(content, MANIFEST)


def _file(entry: ManifestEntry) -> _File:
    return entry.partition, entry.bucket, entry.file.file_name


def _over(written: Record, known: Record) -> Record:
    return written | {
        name: _over(written[name], value)
        if isinstance(value, dict) and isinstance(written.get(name), dict)
        else value
        for name, value in known.items()
    }
