"""Tables as a release later than any that is known here might write them: with more in every record."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import orjson

UNKNOWN = "_OF_A_LATER_RELEASE"


def read_records(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def add_unknown_members(directory: Path) -> None:
    """Give every record of a table's metadata, and every record within one, a member that nobody knows."""
    sizes: dict[str, int] = {}
    labels = map(str, itertools.count())
    for path in sorted(
        (directory / "manifest").iterdir(), key=lambda each: each.name.startswith("manifest-list-")
    ):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema, records = orjson.loads(reader.metadata["avro.schema"]), list(reader)
        extended = [_extended(record, schema, labels) for record in records]
        for record in extended:
            if path.name.startswith("manifest-list-"):
                record["_FILE_SIZE"] = sizes[record["_FILE_NAME"]]
        with path.open("wb") as file:
            fastavro.writer(file, _extended_schema(schema, labels), extended, codec="zstandard")
        sizes[path.name] = path.stat().st_size
    for path in (directory / "snapshot").glob("snapshot-*"):
        document = orjson.loads(path.read_bytes())
        for name in [name for name in document if f"{name}Size" in document]:
            document[f"{name}Size"] = sizes[document[name]]
        path.write_bytes(orjson.dumps(document | {UNKNOWN: {"whatever": [1, None]}}))


def unknown_members(record: object, path: str = "") -> dict[str, Any]:
    """Return the members of a record that nobody knows, by their place in it."""
    found: dict[str, Any] = {}
    match record:
        case Mapping():
            for name, value in record.items():
                found |= {path: value} if name == UNKNOWN else unknown_members(value, f"{path}.{name}")
        case list():
            for at, value in enumerate(record):
                found |= unknown_members(value, f"{path}[{at}]")
    return found


def _extended(value: Any, schema: Any, labels: Iterator[str]) -> Any:
    match schema:
        case ["null", branch] | [branch, "null"]:
            return None if value is None else _extended(value, branch, labels)
        case {"type": "array", "items": items}:
            return [_extended(each, items, labels) for each in value]
        case {"type": "record", "fields": fields}:
            known = {each["name"]: _extended(value[each["name"]], each["type"], labels) for each in fields}
            is_item = schema["name"].endswith("_RANGES")
            unknown = next(labels)
            return known | {UNKNOWN: unknown if is_item else {"texts": [unknown], "at": None}}
        case _:
            return value


def _extended_schema(schema: Any, names: Iterator[str]) -> Any:
    match schema:
        case [*branches]:
            return [_extended_schema(each, names) for each in branches]
        case {"type": "array", "items": items}:
            return schema | {"items": _extended_schema(items, names)}
        case {"type": "record", "fields": fields}:
            known = [each | {"type": _extended_schema(each["type"], names)} for each in fields]
            name = f"later_{next(names)}"
            is_item = schema["name"].endswith("_RANGES")
            unknown = {"name": UNKNOWN, "type": "string" if is_item else ["null", _unknown_type(name)]}
            return schema | {"fields": [*known, unknown]}
        case _:
            return schema


def _unknown_type(name: str) -> Any:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "texts", "type": {"type": "array", "items": "string"}},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        ],
    }
