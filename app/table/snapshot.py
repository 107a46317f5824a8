"""Snapshots: ``snapshot/snapshot-<id>`` and, with the same members and a few more, ``tag/tag-<name>``.

=======================  =======================================================================
member                   meaning
=======================  =======================================================================
id                       number of the snapshot, from 1
schemaId                 the table's schema when it was committed
baseManifestList         file with the manifests of everything up to the previous snapshot
deltaManifestList        file with the manifests of what this commit added and removed
baseManifestListSize,    bytes of these two files; absent in snapshots of old writers
deltaManifestListSize
changelogManifestList    file with the manifests of changelog files, if the commit wrote any
statistics               file in statistics/, if the table was analyzed
indexManifest            file that lists hash indexes and deletion vectors; absent: there are none
commitUser, commitKind,  who committed, APPEND, COMPACT, OVERWRITE or ANALYZE, and the number that the
commitIdentifier         committer gave
timeMillis               when
totalRecordCount         rows in all files, those that a merge would remove included
nextRowId                first row id not given yet, for tables that track rows
=======================  =======================================================================

Members that are null are left out, and unknown ones do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from app.table.decoding import JsonObject
from app.types.digest import content_digest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table; attributes are named after the members above.

    Attributes:
        digest: of the file's bytes. Snapshot numbers come again when a table is rolled back, or dropped and
            made anew at the same place; contents do not.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    base_manifest_list_size: int | None
    delta_manifest_list_size: int | None
    changelog_manifest_list: str | None
    statistics: str | None
    index_manifest: str | None
    commit_user: str
    commit_identifier: int
    commit_kind: str
    time_millis: int
    total_record_count: int | None
    next_row_id: int | None
    digest: str

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Reads a snapshot or tag file."""
        document = JsonObject.read(data, "a snapshot")
        return cls(
            id=document.integer("id"),
            schema_id=document.integer("schemaId"),
            base_manifest_list=document.text("baseManifestList"),
            delta_manifest_list=document.text("deltaManifestList"),
            base_manifest_list_size=document.optional_integer("baseManifestListSize"),
            delta_manifest_list_size=document.optional_integer("deltaManifestListSize"),
            changelog_manifest_list=document.optional_text("changelogManifestList"),
            statistics=document.optional_text("statistics"),
            index_manifest=document.optional_text("indexManifest"),
            commit_user=document.text("commitUser", ""),
            commit_identifier=document.integer("commitIdentifier", 0),
            commit_kind=document.text("commitKind"),
            time_millis=document.integer("timeMillis"),
            total_record_count=document.optional_integer("totalRecordCount"),
            next_row_id=document.optional_integer("nextRowId"),
            digest=content_digest(data),
        )
