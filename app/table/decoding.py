"""Reads snapshots and other JSON of tables, within size limits. Errors name the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import orjson

from app.errors import (
    CorruptMetadataError,
    FileMissingError,
    PaimonIndexError,
    UnsupportedFormatError,
    release_frames,
)
from app.observation import FileFormat, observer
from app.table.storage import SmallFiles
from app.types.digest import content_digest

_Decoded = TypeVar("_Decoded")
_Content = TypeVar("_Content")

# Prefixes of file names; any other file is a snapshot or tag.
_FORMATS = (
    ("schema-", FileFormat.SCHEMA),
    ("index-manifest-", FileFormat.INDEX_MANIFEST),
    ("manifest-list-", FileFormat.MANIFEST_LIST),
    ("manifest-", FileFormat.MANIFEST),
)

# Without limits a single large file, which costs its writer nothing, could exhaust a server's memory.
# Snapshots, tags and changelogs have about 1 KB; some releases add an offset for each bucket, and properties.
SNAPSHOT_BYTES: Final = 1 << 20
# Schemas have 100 to 500 bytes for each column, with its comment, and the table's options.
SCHEMA_BYTES: Final = 8 << 20
HINT_BYTES: Final = 64

_INT64 = 1 << 63

_NAMES: dict[type[Any], str] = {int: "an integer", str: "a string", list: "a list", dict: "an object"}


def decode(path: str, data: _Content, read: Callable[[_Content], _Decoded]) -> _Decoded:
    """Return ``read(data)``. Its errors gain the path."""
    try:
        return read(data)
    except PaimonIndexError as error:
        # Frames of the traceback would keep the file's bytes alive.
        release_frames(error)
        match error:
            case CorruptMetadataError():
                report_undecodable(path)
                raise error.at(path) from error
            case UnsupportedFormatError():
                report_undecodable(path)
                raise UnsupportedFormatError(f"{path}: {error}") from error
            case _:
                raise


def report_undecodable(path: str) -> None:
    """Report to the observer that a metadata file breaks its format."""
    name = path.rpartition("/")[2]
    kinds = (kind for prefix, kind in _FORMATS if name.startswith(prefix))
    observer().undecodable(next(kinds, FileFormat.SNAPSHOT))


def read_small(storage: SmallFiles, path: str, most_bytes: int) -> bytes:
    """Read a whole snapshot, tag or schema. Raises CorruptMetadataError if it exceeds ``most_bytes``."""
    content = storage.start_of(path, most_bytes + 1)
    if content is None:
        raise FileMissingError(f"there is no file {path}", path=path)
    if len(content) > most_bytes:
        report_undecodable(path)
        raise CorruptMetadataError(
            f"expected at most {most_bytes} bytes, found more than any table writer writes: inspect the "
            f"file, and restore or remove it",
            path=path,
        )
    return content


class JsonObject:
    """JSON object with typed access to its members. Null counts as absent, unknown members are ignored.

    Methods raise :class:`CorruptMetadataError` for a member of another type, and for an absent one without a
    default.
    """

    def __init__(self, members: Mapping[str, Any], label: str) -> None:
        self._members = members
        self._label = label

    @classmethod
    def read(cls, data: bytes, label: str) -> Self:
        """Parse a document. ``label`` names it in messages."""
        try:
            members = orjson.loads(data)
        except (orjson.JSONDecodeError, RecursionError) as error:
            raise CorruptMetadataError(f"expected {label} to be JSON: {error}") from error
        return cls.of(members, label)

    @classmethod
    def of(cls, members: object, label: str) -> Self:
        """Wrap an object inside a document."""
        if not isinstance(members, dict):
            raise CorruptMetadataError(f"expected {label} to be a JSON object, found {members!r:.50}")
        return cls(members, label)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a 64-bit integer."""
        value: int = self._typed(name, int, default)
        if not -_INT64 <= value < _INT64:
            raise CorruptMetadataError(f"{self._label}: {name!r} does not fit 64 bits")
        return value

    def optional_integer(self, name: str) -> int | None:
        """Return a 64-bit integer, or None."""
        return None if self._members.get(name) is None else self.integer(name)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string."""
        value: str = self._typed(name, str, default)
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string, or None."""
        return None if self._members.get(name) is None else self.text(name)

    def objects(self, name: str) -> list[JsonObject]:
        """Return a list of objects."""
        items = self._typed(name, list, None)
        return [JsonObject.of(item, f"{self._label}, {name}[{at}]") for at, item in enumerate(items)]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings. An absent one is empty."""
        items = self._typed(name, list, [])
        if not all(isinstance(item, str) for item in items):
            raise CorruptMetadataError(f"{self._label}: {name!r} must hold strings, found {items!r:.100}")
        return tuple(items)

    def text_map(self, name: str) -> dict[str, str]:
        """Return a map of strings. An absent one is empty."""
        items = self._typed(name, dict, {})
        if not all(isinstance(item, str) for item in items.values()):
            raise CorruptMetadataError(f"{self._label}: {name!r} must hold strings, found {items!r:.100}")
        return dict(items)

    def member(self, name: str) -> object:
        """Return the raw value of a member, or None."""
        return self._members.get(name)

    def _typed(self, name: str, kind: type[Any], default: object) -> Any:
        value = self._members.get(name)
        if value is None:
            value = default
        if not isinstance(value, kind) or isinstance(value, bool):
            actual = "nothing" if value is None else f"{value!r:.100}"
            raise CorruptMetadataError(f"{self._label}: {name!r} must be {_NAMES[kind]}, found {actual}")
        return value


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """Version of a table: ``snapshot/snapshot-<id>``, or ``tag/tag-<name>``, which has a few members more.

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
    # Digest of the file's bytes. Snapshot numbers are used again after a rollback, or once a table is dropped
    # and recreated; contents are not.
    digest: str

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Parse a snapshot or tag file."""
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
