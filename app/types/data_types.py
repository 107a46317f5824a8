"""Paimon's data types and their text form.

A schema file has simple types as text (``DECIMAL(9, 2) NOT NULL``) and nested ones as JSON objects
(``{"type": "MAP", "key": "STRING", "value": "INT"}``). The engine's ``toString`` formats nested ones as
``MAP<STRING, INT>``. :func:`parse_type` reads all three.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from app.errors import RequestError

_MAX_LENGTH = 2**31 - 1
_DEFAULT_DECIMAL = (10, 0)
_DEFAULT_TIME_PRECISION = 0
_DEFAULT_TIMESTAMP_PRECISION = 6
_MAX_NESTING = 64
_COMPACT_DECIMAL_PRECISION = 18
_MILLISECOND_PRECISION = 3

_SIMPLE = re.compile(
    r"([A-Z_]+)\s*(?:\(\s*(\d{1,10})\s*(?:,\s*(-?\d{1,10})\s*)?\)\s*)?", re.IGNORECASE | re.ASCII
)
_LOCAL_ZONE = re.compile(r"WITH\s+LOCAL\s+TIME\s+ZONE", re.IGNORECASE | re.ASCII)
_WITHOUT_ZONE = re.compile(r"WITHOUT\s+TIME\s+ZONE", re.IGNORECASE | re.ASCII)
_NESTED = re.compile(r"(ARRAY|MAP|MULTISET|ROW)\s*<(.*)>", re.IGNORECASE | re.ASCII | re.DOTALL)

_ALIASES = {
    "INTEGER": "INT",
    "STRING": "VARCHAR",
    "BYTES": "VARBINARY",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
}
_UNBOUNDED = frozenset({"STRING", "BYTES"})


class TypeRoot(StrEnum):
    """Kind of a type, without parameters. Values are Paimon's own names."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    # A type without values in this release (VARIANT, VECTOR, BLOB ...): never indexed, never compared.
    OTHER = "OTHER"


# Width in bits of the signed integer types.
INTEGER_BITS: Final = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
# Types of whole numbers that fit 64 bits, except timestamps and decimals.
WHOLE_ROOTS: Final = frozenset({TypeRoot.DATE, TypeRoot.TIME, *INTEGER_BITS})

STRING_ROOTS: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS: Final = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
FLOATING_ROOTS: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
TIMESTAMP_ROOTS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
NESTED_ROOTS: Final = frozenset(
    {TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.OTHER}
)


@dataclass(frozen=True, slots=True)
class DataType:
    """Data type with its parameters."""

    root: TypeRoot
    nullable: bool = True
    # Digits of DECIMAL; fraction digits of TIME and TIMESTAMP; length of CHAR, VARCHAR, BINARY and VARBINARY;
    # 0 elsewhere.
    precision: int = 0
    # Fraction digits of DECIMAL; 0 elsewhere.
    scale: int = 0
    # Element of ARRAY and MULTISET; key and value of MAP; empty elsewhere.
    children: tuple[DataType, ...] = ()
    # The type as written, without `NOT NULL`, for messages and answers.
    text: str = ""
    # Fields of a ROW written as a JSON object; they are in no index.
    fields: tuple[DataField, ...] = ()

    def __str__(self) -> str:
        return (self.text or self.root.value) + ("" if self.nullable else " NOT NULL")

    @property
    def is_compact_decimal(self) -> bool:
        """True for a DECIMAL that fits 64 bits (at most 18 digits)."""
        return self.root is TypeRoot.DECIMAL and self.precision <= _COMPACT_DECIMAL_PRECISION

    @property
    def is_compact_timestamp(self) -> bool:
        """True for a timestamp stored in milliseconds (at most 3 fraction digits)."""
        return self.root in TIMESTAMP_ROOTS and self.precision <= _MILLISECOND_PRECISION

    def same_kind(self, other: DataType) -> bool:
        """Return True if two types are equal up to nullability (of every level)."""
        return (
            self.root is other.root
            and self.precision == other.precision
            and self.scale == other.scale
            and len(self.children) == len(other.children)
            and all(
                mine.same_kind(theirs) for mine, theirs in zip(self.children, other.children, strict=True)
            )
            and (self.root is not TypeRoot.OTHER or self.text == other.text)
        )


@dataclass(frozen=True, slots=True)
class DataField:
    """Column: its permanent id, its present name and type.

    An indexed map key is a field called ``column[key]`` with the map's value type and the map column's id.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None


def parse_type(written: str | Mapping[str, object]) -> DataType:
    """Parse a type from its text or JSON form. Raises RequestError if the text is not a type."""
    return _parse(written, 0)


def _parse(written: object, depth: int) -> DataType:
    if depth > _MAX_NESTING:
        raise RequestError(f"type nested deeper than {_MAX_NESTING} levels")
    if isinstance(written, str):
        return _parse_text(written, depth)
    if isinstance(written, dict):
        return _parse_json(written, depth)
    raise RequestError(f"a type is text or a JSON object, not {type(written).__name__}")


def _parse_json(written: Mapping[str, object], depth: int) -> DataType:
    name = written.get("type")
    if not isinstance(name, str):
        raise RequestError(f"type object without a 'type' name: {written!r:.100}")
    nullable, base = _split_nullability(name)
    match base.upper():
        case "ARRAY" | "MULTISET" as root:
            children: tuple[DataType, ...] = (_parse(written.get("element"), depth + 1),)
        case "MAP" as root:
            children = (_parse(written.get("key"), depth + 1), _parse(written.get("value"), depth + 1))
        case "ROW":
            return _row(written.get("fields"), nullable=nullable, depth=depth)
        case "VECTOR" if {"element", "length"} <= written.keys():
            text = f"VECTOR<{_parse(written['element'], depth + 1)}, {written['length']}>"
            return DataType(TypeRoot.OTHER, nullable, text=text)
        case _:
            return DataType(TypeRoot.OTHER, nullable, text=base)
    inner = ", ".join(str(child) for child in children)
    return DataType(TypeRoot(root), nullable, children=children, text=f"{root}<{inner}>")


def _row(written: object, *, nullable: bool, depth: int) -> DataType:
    if not isinstance(written, list | None):
        raise RequestError(f"the fields of a ROW are a list, found {written!r:.100}")
    fields = tuple(_row_field(member, depth + 1) for member in written or ())
    inner = (
        ", ".join("`{}` {}".format(field.name.replace("`", "``"), field.type) for field in fields) or "..."
    )
    return DataType(TypeRoot.ROW, nullable, text=f"ROW<{inner}>", fields=fields)


def _row_field(written: object, depth: int) -> DataField:
    members = written if isinstance(written, dict) else {}
    number, name, described = (members.get(member) for member in ("id", "name", "description"))
    if not (isinstance(number, int) and isinstance(name, str) and "type" in members):
        raise RequestError(f"a field of a ROW has an id, a name and a type, found {written!r:.100}")
    text = described if isinstance(described, str) else None
    return DataField(number, name, _parse_inside(members["type"], depth), text)


def _parse_inside(written: object, depth: int) -> DataType:
    try:
        return _parse(written, depth)
    except RequestError:
        # Nothing reads fields of a ROW, so an unknown type does no harm.
        if not isinstance(written, str):
            raise
        nullable, base = _split_nullability(written)
        return DataType(TypeRoot.OTHER, nullable, text=base)


def _split_nullability(written: str) -> tuple[bool, str]:
    match written.rsplit(maxsplit=2):
        case [base, last_but_one, last] if (last_but_one.upper(), last.upper()) == ("NOT", "NULL"):
            return False, base.strip()
        case [_, *_, last] if last.upper() == "NULL":
            return True, written.rsplit(maxsplit=1)[0].strip()
        case _:
            return True, written.strip()


def _parse_text(written: str, depth: int) -> DataType:
    nullable, base = _split_nullability(written)
    nested = _NESTED.fullmatch(base)
    if nested is not None:
        root = TypeRoot(nested.group(1).upper())
        parts = () if root is TypeRoot.ROW else _split_arguments(nested.group(2))
        if root is not TypeRoot.ROW and len(parts) != (2 if root is TypeRoot.MAP else 1):
            raise RequestError(f"{root} has the wrong number of arguments: {written!r:.100}")
        return DataType(root, nullable, children=tuple(_parse(part, depth + 1) for part in parts), text=base)
    simple = _SIMPLE.match(base)
    if simple is None:
        raise RequestError(f"not a data type: {written!r:.100}")
    return replace(_simple_type(simple, base), nullable=nullable, text=base)


def _split_arguments(inner: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(inner):
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
    return [*parts, inner[start:]]


def _simple_type(match: re.Match[str], base: str) -> DataType:
    written_name = match.group(1).upper()
    name = _ALIASES.get(written_name, written_name)
    first, second, tail = match.group(2), match.group(3), base[match.end() :]
    if name in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return _temporal_type(name, first, tail, base)
    if tail and (name in TypeRoot.__members__ or not tail.startswith("<")):
        raise RequestError(f"unexpected text after the type: {base!r:.100}")
    match name:
        case "DECIMAL":
            precision = int(first) if first else _DEFAULT_DECIMAL[0]
            scale = int(second) if second else _DEFAULT_DECIMAL[1]
            if not (1 <= precision <= 38 and 0 <= scale <= precision):  # noqa: PLR2004 - SQL's own bound
                raise RequestError(f"DECIMAL takes 1 to 38 digits and a scale within them: {base!r:.100}")
            return DataType(TypeRoot.DECIMAL, precision=precision, scale=scale)
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            default = _MAX_LENGTH if written_name in _UNBOUNDED else 1
            return DataType(TypeRoot(name), precision=int(first) if first else default)
        case "BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "FLOAT" | "DOUBLE" | "DATE":
            return DataType(TypeRoot(name))
        case _:
            return DataType(TypeRoot.OTHER)


def _temporal_type(name: str, digits: str | None, tail: str, base: str) -> DataType:
    if name == "TIMESTAMP" and _LOCAL_ZONE.fullmatch(tail):
        name = "TIMESTAMP_LTZ"
    elif tail and not _WITHOUT_ZONE.fullmatch(tail):
        raise RequestError(f"unexpected text after the type: {base!r:.100}")
    default = _DEFAULT_TIME_PRECISION if name == "TIME" else _DEFAULT_TIMESTAMP_PRECISION
    precision = int(digits) if digits else default
    if precision > 9:  # noqa: PLR2004 - nanoseconds
        raise RequestError(f"at most nine fraction digits: {base!r:.100}")
    return DataType(TypeRoot(name), precision=precision)
