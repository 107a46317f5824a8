"""The golden file indexes with the rows they were made of, read as ``tests/golden/unit/README.md`` says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyroaring import BitMap

from app.file_index.stacked_index import FileIndex
from app.predicates.model import BoundPredicate
from app.types import DataField, DataType, TypeRoot, Value, parse_json, parse_type
from app.types.data_types import STRING_ROOTS
from tests import golden_unit
from tests.sessions import bind_json

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


def names() -> tuple[str, ...]:
    return tuple(name for name in golden_unit.documents(_KIND) if name not in _OTHER_DOCUMENTS)


def by_kind(left_out: str = "") -> dict[str, list[str]]:
    """The same by the first word of the name."""
    found: dict[str, list[str]] = {}
    for name in names():
        if name != left_out:
            found.setdefault(re.split("[-_]", name)[0], []).append(name)
    return found


@cache
def load(name: str) -> GoldenIndex:
    """One golden file; shared, so do not change it."""
    document = golden_unit.document(_KIND, name)
    fields = tuple(
        DataField(at, column["name"], parse_type(column["type"]))
        for at, column in enumerate(document["columns"])
    )
    columns: dict[str, Sequence[Value | None]] = {}
    for at, field in enumerate(fields):
        if "rows_from" in document:
            columns[field.name] = _by_rule(document["rows_from"][at], document["row_count"], field.type)
            continue
        written = [expand(row[at]) for row in document["rows"]]
        if field.type.root is TypeRoot.MAP:
            columns |= _map_keys(document, field, written)
        else:
            columns[field.name] = [parse_json(value, field.type) for value in written]
    return GoldenIndex(document, golden_unit.files(_KIND)[f"{name}.index"], fields, columns)


def expand(written: Any) -> Any:
    """A JSON value with every repeated text written out."""
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
    """Recorded positions; None where only their number and checksum are."""
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
