"""Paimon's column types in Spark, and the changes of a type that a file may be read through.

A type is text as in schema files (``DECIMAL(9, 2) NOT NULL``) or an object for nested ones. Both readers
return a file's columns in the file's own types. Spark then casts them to the table's. Only changes for which
Spark and the engine give equal values are accepted: wider numbers, decimals and texts, numbers and booleans
as text, and rows with added fields. All others are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from paimon_index.errors import UnsupportedTableError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_TEXT: Final = re.compile(r"([A-Z_]+(?: [A-Z]+)*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?((?: [A-Z]+)*)")
_SIMPLE: Final = {
    "BOOLEAN": spark.BooleanType(),
    "TINYINT": spark.ByteType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "INTEGER": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "CHAR": spark.StringType(),
    "VARCHAR": spark.StringType(),
    "STRING": spark.StringType(),
    "BINARY": spark.BinaryType(),
    "VARBINARY": spark.BinaryType(),
    "BYTES": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIMESTAMP": spark.TimestampNTZType(),
    "TIMESTAMP_LTZ": spark.TimestampType(),
}
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_INTEGERS: Final = tuple(_DIGITS)
_NUMBERS: Final = (*_INTEGERS, "FLOAT", "DOUBLE")
_TEXTS: Final = ("CHAR", "VARCHAR", "STRING")
_BYTES: Final = ("BINARY", "VARBINARY", "BYTES")
_DEFAULTS: Final = {"DECIMAL": 10, "CHAR": 1, "VARCHAR": 1, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "TIME": 0}
_PARTS: Final = ("element", "key", "value")
"""Keys of nested types; those of a row are in its fields."""
_MICROSECONDS: Final = 6
_UNBOUNDED: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class SimpleType:
    """A type without parts.

    ``size`` is the precision of decimals and timestamps, and the length of texts and bytes. 0 for others.
    """

    root: str
    size: int = 0
    scale: int = 0

    @classmethod
    def parse(cls, text: str) -> SimpleType:
        """Parse a text such as ``DECIMAL(9, 2) NOT NULL``."""
        match = _TEXT.fullmatch(text.removesuffix(" NOT NULL"))
        if match is None:
            return cls(text)
        root, size, scale, rest = match.groups()
        if "LOCAL TIME ZONE" in root + rest:
            root = "TIMESTAMP_LTZ"
        unbounded = _UNBOUNDED if root in ("STRING", "BYTES") else _DEFAULTS.get(root, 0)
        return cls({"INTEGER": "INT"}.get(root, root), int(size or unbounded), int(scale or 0))


def spark_type(written: str | dict[str, Any]) -> DataType:
    """Return Spark's type of a column, with nullable parts. Raises UnsupportedTableError if there is none."""
    if isinstance(written, str):
        simple = SimpleType.parse(written)
        if simple.root == "DECIMAL":
            return spark.DecimalType(simple.size, simple.scale)
        if simple.root not in _SIMPLE:
            raise UnsupportedTableError(f"Spark has no type for {written}")
        return _SIMPLE[simple.root]
    root = written["type"].removesuffix(" NOT NULL")
    match root:
        case "ARRAY":
            return spark.ArrayType(_inner(written["element"]))
        case "MAP":
            return spark.MapType(_inner(written["key"]), _inner(written["value"]))
        case "MULTISET":
            return spark.MapType(_inner(written["element"]), spark.IntegerType())
        case "ROW":
            return spark.StructType(
                [spark.StructField(field["name"], _inner(field["type"])) for field in written["fields"]]
            )
    raise UnsupportedTableError(f"Spark has no type for {root}")


def char_length(written: str | dict[str, Any]) -> int | None:
    """Return the length of a CHAR column, to which Spark pads. None for other types."""
    simple = SimpleType.parse(written) if isinstance(written, str) else None
    return simple.size if simple is not None and simple.root == "CHAR" else None


def timestamp_digits(written: str | dict[str, Any]) -> int:
    """Return the most fractional digits of timestamps within a type. Return -1 if it has none."""
    if isinstance(written, str):
        simple = SimpleType.parse(written)
        return simple.size if simple.root.startswith("TIMESTAMP") else -1
    parts = [written[part] for part in _PARTS if part in written]
    parts += [field["type"] for field in written.get("fields", ())]
    return max(map(timestamp_digits, parts), default=-1)


def is_cut_in_spark(written: str | dict[str, Any]) -> bool:
    """Return True if a timestamp within a type is finer than microseconds."""
    return timestamp_digits(written) > _MICROSECONDS


def is_readable_as(written: str | dict[str, Any], target: str | dict[str, Any]) -> bool:
    """Return True if Spark's cast of a file's column gives the engine's values."""
    if not (isinstance(written, str) and isinstance(target, str)):
        return _is_extended(written, target)
    old, new = SimpleType.parse(written), SimpleType.parse(target)
    if old.root == new.root == "DECIMAL":
        return new.scale >= old.scale and new.size - new.scale >= old.size - old.scale
    if old.root in _INTEGERS and new.root == "DECIMAL":
        return new.size - new.scale >= _DIGITS[old.root]
    if old.root in _NUMBERS and new.root in _NUMBERS:
        return _NUMBERS.index(old.root) <= _NUMBERS.index(new.root)
    if old.root in _TEXTS and new.root in _TEXTS:
        return old == new or (new.root != "CHAR" and new.size >= old.size)
    if old.root in (*_INTEGERS, "BOOLEAN") and new.root in _TEXTS:
        return new.size == _UNBOUNDED
    if old.root in _BYTES and new.root in _BYTES:
        return old == new or (new.root != "BINARY" and new.size >= old.size)
    return old.root == new.root and new.size >= old.size


def _inner(written: str | dict[str, Any]) -> DataType:
    if char_length(written) is not None:
        raise UnsupportedTableError("values of CHAR within nested types are not padded as Spark pads them")
    return spark_type(written)


def _is_extended(written: Any, target: Any) -> bool:
    """Return True if the types differ only in added fields of rows, which are null in the file."""
    if isinstance(written, str) or isinstance(target, str):
        return bool(_bare(written) == _bare(target))
    if _bare(written["type"]) != _bare(target["type"]):
        return False
    for part in _PARTS:
        if part in written and not _is_extended(written[part], target[part]):
            return False
    key = "element" if _bare(written["type"]) == "MULTISET" else "key"
    if key in written and not _is_extended(target.get(key), written[key]):
        return False  # keys are looked up, so they stay as they are
    new_fields = iter(target.get("fields", ()))  # contain the file's fields in their order
    return all(
        any(
            (field["id"], field["name"]) == (new["id"], new["name"])
            and _is_extended(field["type"], new["type"])
            for new in new_fields
        )
        for field in written.get("fields", ())
    )


def _bare(written: Any) -> Any:
    return written.removesuffix(" NOT NULL") if isinstance(written, str) else written
