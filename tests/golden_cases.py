"""Loads what golden cases are made of; the READMEs below ``tests/golden`` say what the documents mean.

``tables``: a warehouse that the Java engine wrote (``warehouse/golden.db/``, ``external/`` for files outside)
and a document of what it says of each table. ``versions``: tables of several releases. ``unit``: JSON and
binary files by kind, among them file indexes with the rows that they were made of. What the loaders return is
shared: nobody changes it.
"""

import json
import lzma
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyroaring import BitMap

from app.file_index.stacked_index import FileIndex
from app.predicates.model import BoundPredicate
from app.table import TableSchema
from app.table.manifests.manifest import Manifest
from app.types import DataField, DataType, TypeRoot, Value, parse_json, parse_type
from app.types.data_types import STRING_ROOTS
from tests.bound_filters import bind_json
from tests.golden_filters import in_our_words

DATABASE = "golden"

_ARCHIVES = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True)
class GoldenWarehouse:
    """The unpacked archive; nothing in it may be written to."""

    root: Path
    external: Path

    def table(self, name: str) -> Path:
        return self.root / f"{DATABASE}.db" / name

    def copy(self, name: str, warehouse: Path) -> Path:
        """Copy a table into another warehouse; return its directory."""
        return Path(shutil.copytree(self.table(name), warehouse / f"{DATABASE}.db" / name))

    def allow_external(self) -> list[str]:
        """``URI=LOCATION`` per external root: where the engine wrote it, where it is now."""
        return [
            f"{root['uri']}=file://{self.external.parent / root['copied_to']}"
            for name in tables()
            for root in expected(name).get("external_roots", ())
        ]


def unpack(directory: Path) -> GoldenWarehouse:
    with tarfile.open(_ARCHIVES / "tables" / "warehouse.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return GoldenWarehouse(directory / "warehouse", directory / "external")


@cache
def tables() -> tuple[str, ...]:
    return tuple(table["table"] for table in json.loads(_documents()["index.json"])["tables"])


@cache
def expected(name: str) -> dict[str, Any]:
    """Return the expectations of one table; shared, so do not change it."""
    document: dict[str, Any] = json.loads(_documents()[f"expected/{name}.json"])
    return document | {"queries": in_our_words(document["queries"])}


@cache
def _documents() -> dict[str, bytes]:
    with tarfile.open(_ARCHIVES / "tables" / "expected.tar.xz") as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read() for name, file in files if file is not None}


@cache
def files(kind: str) -> dict[str, bytes]:
    """Content by file name; shared, so do not change it."""
    with zipfile.ZipFile(_ARCHIVES / "unit" / f"{kind}.zip") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@cache
def document(kind: str, name: str) -> dict[str, Any]:
    """Return the JSON document ``name`` (without its suffix); shared, so do not change it."""
    content: dict[str, Any] = json.loads(files(kind)[f"{name}.json"])
    return content


def documents(kind: str) -> tuple[str, ...]:
    """Return the names of all JSON documents, without their suffix."""
    return tuple(sorted(name.removesuffix(".json") for name in files(kind) if name.endswith(".json")))


@dataclass(frozen=True, slots=True)
class VersionTable:
    expected: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.version} {self.name}"

    @property
    def version(self) -> str:
        """The release, or the first one and the one that wrote on; its warehouse's directory."""
        return str(self.expected["version"])

    @property
    def name(self) -> str:
        return str(self.expected["table"])


@cache
def version_tables() -> tuple[VersionTable, ...]:
    documents = json.loads(lzma.decompress((_ARCHIVES / "versions" / "expected.json.xz").read_bytes()))
    return tuple(VersionTable(each | {"queries": in_our_words(each["queries"])}) for each in documents)


def unpack_versions(directory: Path) -> Path:
    """Unpacks a warehouse per release into ``directory``, and returns that."""
    with tarfile.open(_ARCHIVES / "versions" / "warehouse.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory


@dataclass(frozen=True, slots=True)
class GoldenDataFile:
    path: Path
    schema: TableSchema
    index: bytes
    embedded: bool


def indexed_files(golden: GoldenWarehouse, table: str) -> Iterator[GoldenDataFile]:
    """Every file of a table that has an index and is still there, of whatever version."""
    directory = golden.table(table)
    schemas = {
        int(path.name.removeprefix("schema-")): TableSchema.read(path.read_bytes())
        for path in (directory / "schema").glob("schema-*")
    }
    paths = {
        path.name: path
        for root in (directory, golden.external / table)
        for path in root.rglob("*")
        if path.is_file()
    }
    met: set[str] = set()
    for path in sorted((directory / "manifest").glob("manifest-*")):
        if path.name.startswith("manifest-list-"):
            continue
        manifest = Manifest.read(path.read_bytes())
        for row in range(len(manifest.kinds)):
            meta = manifest.entry(row).file
            if meta.file_name in met or meta.file_name not in paths:
                continue
            met.add(meta.file_name)
            schema, embedded = schemas[meta.schema_id], meta.embedded_index
            side = [paths[name] for name in meta.extra_files if name.endswith(".index") and name in paths]
            if embedded is not None:
                yield GoldenDataFile(paths[meta.file_name], schema, bytes(embedded), embedded=True)
            elif side:
                yield GoldenDataFile(paths[meta.file_name], schema, side[0].read_bytes(), embedded=False)


_KIND = "file-index"
_OTHER_DOCUMENTS = {"damaged", "refused"}
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class GoldenIndex:
    """One golden file."""

    document: Mapping[str, Any]
    content: bytes
    fields: Sequence[DataField]
    columns: Mapping[str, Sequence[Value | None]]

    @property
    def row_count(self) -> int:
        return int(self.document["row_count"])

    def read(self) -> FileIndex:
        return FileIndex.read(self.content)

    def bind(self, written: object) -> BoundPredicate:
        return bind_json(expand(written), self.fields)

    def field(self, name: str) -> DataField:
        for field in self.fields:
            if field.name == name:
                return field
            if field.type.root is TypeRoot.MAP and name.startswith(f"{field.name}["):
                return DataField(field.id, name, field.type.children[1])
        raise KeyError(name)


def index_names() -> tuple[str, ...]:
    return tuple(name for name in documents(_KIND) if name not in _OTHER_DOCUMENTS)


def index_names_by_kind(left_out: str = "") -> dict[str, list[str]]:
    """Names of golden file indexes by their first word."""
    found: dict[str, list[str]] = {}
    for name in index_names():
        if name != left_out:
            found.setdefault(re.split("[-_]", name)[0], []).append(name)
    return found


@cache
def load_index(name: str) -> GoldenIndex:
    """One golden file; shared, so do not change it."""
    written = document(_KIND, name)
    written = written | {"checks": in_our_words(written["checks"])}
    fields = tuple(
        DataField(at, column["name"], parse_type(column["type"]))
        for at, column in enumerate(written["columns"])
    )
    columns: dict[str, Sequence[Value | None]] = {}
    for at, field in enumerate(fields):
        if "rows_from" in written:
            columns[field.name] = _by_rule(written["rows_from"][at], written["row_count"], field.type)
            continue
        rows = [expand(row[at]) for row in written["rows"]]
        if field.type.root is TypeRoot.MAP:
            columns |= _map_keys(written, field, rows)
        else:
            columns[field.name] = [parse_json(value, field.type) for value in rows]
    return GoldenIndex(written, files(_KIND)[f"{name}.index"], fields, columns)


def expand(written: Any) -> Any:
    """Return a JSON value with every repeated text written out."""
    match written:
        case {"$repeat": text, "times": times, **rest}:
            return text * times + rest.get("suffix", "")
        case dict():
            return {key: expand(value) for key, value in written.items()}
        case list():
            return [expand(value) for value in written]
        case _:
            return written


def positions(recorded: Any, row_count: int) -> BitMap | None:
    """Return recorded positions; None where only their number and checksum are."""
    match recorded:
        case list():
            return BitMap(recorded)
        case {"runs": runs}:
            return BitMap([row for start, count in runs for row in range(start, start + count)])
        case {"all_but": left_out}:
            return BitMap(range(row_count)) - BitMap(left_out)
        case _:
            return None


def _map_keys(
    document: Mapping[str, Any], field: DataField, written: Sequence[Any]
) -> dict[str, list[Value | None]]:
    named = {
        *document["indexes"],
        *(name for check in document["checks"] for name in _named(check["predicate"])),
    }
    value_type = field.type.children[1]
    return {
        name: [
            None
            if entries is None
            else parse_json(dict(entries["$map"]).get(name[len(field.name) + 1 : -1]), value_type)
            for entries in written
        ]
        for name in named
        if name.startswith(f"{field.name}[")
    }


def _named(predicate: Mapping[str, Any]) -> set[str]:
    if predicate["kind"] == "LEAF":
        return {predicate["transform"]["fieldRef"]["name"]}
    return set[str]().union(*map(_named, predicate["children"]))


def _by_rule(rule: Mapping[str, Any], row_count: int, data_type: DataType) -> list[Value | None]:
    values: list[Value | None] = []
    for row in range(row_count):
        if rule["null_every"] and row % rule["null_every"] == rule["null_every"] - 1:
            values.append(None)
            continue
        turn = row // rule["run"]
        if rule["kind"] == "mix":
            turn = _mix(rule["seed"] + (turn + 1) * 0x9E3779B97F4A7C15 & _MASK) >> 1
        number = rule["base"] + turn % rule["distinct"] * rule["step"]
        values.append(f"{rule['prefix']}{number}".encode() if data_type.root in STRING_ROOTS else number)
    return values


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31
