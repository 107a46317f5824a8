"""Partition values, and the directories that are named after them.

Values come from an entry's partition row. Directories are derived from values, never the other way round:
null, an empty string and a blank one share a directory. A directory is ``name=value``, one level per
partition column. Special characters are written ``%XX``.

===============  =====================================  =========================================
type             text with partition.legacy-name        text without
===============  =====================================  =========================================
DATE             ``19723`` (days)                       ``2024-01-01``
TIME             ``1000`` (milliseconds)                ``00:00:01``
timestamps       ``2023-11-14T22:13:20.123``            ``2023-11-14 22:13:20.123``
FLOAT, DOUBLE    ``1.0E10``, as Java prints them        ``1.0E10``
all others       plain                                  plain
===============  =====================================  =========================================

pypaimon up to 2.0.0 writes Python's ``str`` of a value, unescaped: ``2024-01-01``, ``True``, ``a:b``,
``2023-11-14 22:13:20.123000``, ``1E-10``, ``10000000000.0``, ``nan``. 2.1 still writes the last. Up to 1.3
NULL is ``None``, and a blank text stands for itself.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from app.errors import UnsupportedFormatError
from app.table.schema.schema import TableSchema
from app.types import BINARY_ROOTS, FLOATING_ROOTS, TIMESTAMP_ROOTS, DataType, Json, TypeRoot, Value, to_json
from app.types.binary_row import read_row
from app.types.civil_time import NANOS_PER_MILLI, NANOS_PER_SECOND, civil_date

_ESCAPED = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_NO_BREAK_SPACES = frozenset("\u00a0\u2007\u202f")
_JAVA_CONTROL_SPACES = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f")
_NANOS_PER_DAY = 86_400_000_000_000
_PLAIN_BELOW = 7
_PLAIN_FROM = -3


def partition_values(partition: bytes, schema: TableSchema) -> tuple[Value | None, ...]:
    """Decode the values of the partition columns, in their order."""
    return read_row(partition, [column.type for column in schema.partition_fields])


def partition_json(row: bytes, schema: TableSchema) -> dict[str, Json]:
    """Decode a partition row as typed JSON by column name."""
    values = zip(schema.partition_fields, partition_values(row, schema), strict=True)
    return {field.name: to_json(value, field.type) for field, value in values}


def partition_path(partition: bytes, schema: TableSchema) -> str:
    """Return the directory of a partition, ``a=1/b=x``, empty for tables without partitions.

    Raises UnsupportedFormatError if values of a column's type have no fixed text.
    """
    columns = zip(schema.partition_fields, partition_values(partition, schema), strict=True)
    return "/".join(
        f"{escape(column.name)}={escape(_directory_text(value, column.type, schema))}"
        for column, value in columns
    )


def partition_names(partition: bytes, schema: TableSchema) -> list[Sequence[str]]:
    """Return the names that writers give the directory of each partition column, the engine's first.

    Raises UnsupportedFormatError as :func:`partition_path` does.
    """
    levels: list[Sequence[str]] = []
    for column, value in zip(schema.partition_fields, partition_values(partition, schema), strict=True):
        python = _python_text(value, column.type)
        is_blank = value is None or not python.strip()
        texts = (schema.options.default_partition if is_blank else python, python)
        engine = f"{escape(column.name)}={escape(_directory_text(value, column.type, schema))}"
        names = dict.fromkeys((engine, *(f"{column.name}={text}" for text in texts)))
        # A slash adds a level, which must not lead elsewhere.
        levels.append([name for name in names if not {"", ".", ".."} & {*name.split("/")}])
    return levels


def escape(text: str) -> str:
    """Escape a text for use in a directory name."""
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _directory_text(value: Value | None, data_type: DataType, schema: TableSchema) -> str:
    if value is None:
        return schema.options.default_partition
    legacy = schema.options.legacy_partition_names
    text = _text(value, data_type, legacy=legacy)
    return schema.options.default_partition if all(map(_is_java_blank, text)) else text


def _is_java_blank(char: str) -> bool:
    if char in _JAVA_CONTROL_SPACES:
        return True
    return unicodedata.category(char) in ("Zs", "Zl", "Zp") and char not in _NO_BREAK_SPACES


def _text(value: Value, data_type: DataType, *, legacy: bool) -> str:
    root = data_type.root
    if isinstance(value, bytes):
        if root in BINARY_ROOTS and legacy:
            # Java prints the address of the array.
            raise UnsupportedFormatError(f"the directory of a {data_type} partition has no fixed name")
        return value.decode(errors="replace")
    if root in FLOATING_ROOTS:
        return _java_float(float(value), data_type)
    if root in TIMESTAMP_ROOTS:
        # Without legacy names the engine prints local timestamps in its own zone; services run it in UTC.
        return _iso_timestamp(int(value)) if legacy else _sql_timestamp(int(value), data_type.precision)
    match root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.DATE if not legacy:
            return _date(int(value))
        case TypeRoot.TIME if not legacy:
            return _sql_time(int(value), data_type.precision)
        case TypeRoot.DECIMAL:
            return str(to_json(value, data_type))
        case _:
            return str(value)


def _python_text(value: Value | None, data_type: DataType) -> str:
    root = data_type.root
    if value is None or root in BINARY_ROOTS:
        return str(value)
    if root in TIMESTAMP_ROOTS or root is TypeRoot.TIME:
        nanos = int(value) * (NANOS_PER_MILLI if root is TypeRoot.TIME else 1)
        day_and_clock = _sql_timestamp(nanos, 6 if nanos % NANOS_PER_SECOND else 0)
        return day_and_clock.split()[1] if root is TypeRoot.TIME else day_and_clock
    if root is TypeRoot.DECIMAL:
        return str(Decimal(f"{value!r}E-{data_type.scale}"))
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return _date(int(value)) if root is TypeRoot.DATE else str(value)


def _date(days: int) -> str:
    year, month, day = civil_date(days)
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def _clock(nanos: int) -> tuple[str, str, int]:
    """Split a time of day into ``(HH:mm, ss, nanoseconds)``."""
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}", f"{seconds % 60:02}", fraction


def _iso_timestamp(nanos: int) -> str:
    """Format like Java's ``LocalDateTime``: no seconds if zero, otherwise 0, 3, 6 or 9 fraction digits."""
    days, time = divmod(nanos, _NANOS_PER_DAY)
    minutes, seconds, fraction = _clock(time)
    day = _date(days)
    text = f"{day}T{minutes}" if day[0] == "-" or len(day) == len("2024-01-01") else f"+{day}T{minutes}"
    if fraction == 0:
        return text if seconds == "00" else f"{text}:{seconds}"
    digits = f"{fraction:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}:{seconds}.{digits}"


def _sql_timestamp(nanos: int, precision: int) -> str:
    """Format with at least ``precision`` fraction digits, more if the value needs them."""
    days, time = divmod(nanos, _NANOS_PER_DAY)
    minutes, seconds, fraction = _clock(time)
    digits = f"{fraction:09}"
    while len(digits) > precision and digits.endswith("0"):
        digits = digits[:-1]
    return f"{_date(days)} {minutes}:{seconds}" + (f".{digits}" if digits else "")


def _sql_time(millis: int, precision: int) -> str:
    """Format with up to ``precision`` fraction digits: no trailing zeros, but one digit if any."""
    minutes, seconds, fraction = _clock(millis * NANOS_PER_MILLI)
    digits = f"{fraction:09}"[:precision].rstrip("0") or "0"
    return f"{minutes}:{seconds}" + (f".{digits}" if precision else "")


def _java_float(number: float, data_type: DataType) -> str:
    """Format in Java's notation with the shortest digits that identify the value (since Java 19)."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    exact = np.float32(number) if data_type.root is TypeRoot.FLOAT else np.float64(number)
    shortest = Decimal(np.format_float_scientific(exact, unique=True, trim="-"))
    shown, exponent = "".join(map(str, shortest.as_tuple().digits)), shortest.adjusted()
    minus = "-" if number < 0 else ""
    if not _PLAIN_FROM <= exponent < _PLAIN_BELOW:
        return f"{minus}{shown[0]}.{shown[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{minus}0.{'0' * (-exponent - 1)}{shown}"
    whole = shown[: exponent + 1].ljust(exponent + 1, "0")
    return f"{minus}{whole}.{shown[exponent + 1 :] or '0'}"


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """Cache of decoded partition rows. Threads may share it: two that decode one row get equal values."""

    schema: TableSchema
    _values: dict[bytes, tuple[Value | None, ...]] = field(default_factory=dict)
    _json: dict[bytes, Mapping[str, Json]] = field(default_factory=dict)

    def values(self, row: bytes) -> tuple[Value | None, ...]:
        """Return the values of a partition row, in the order of the partition columns."""
        values = self._values.get(row)
        if values is None:
            values = self._values[row] = partition_values(row, self.schema)
        return values

    def json(self, row: bytes) -> Mapping[str, Json]:
        """Return a partition row as typed JSON by column name."""
        members = self._json.get(row)
        if members is None:
            members = self._json[row] = partition_json(row, self.schema)
        return members

    def where(
        self, rows: Sequence[bytes], holds: Callable[[tuple[Value | None, ...]], bool]
    ) -> NDArray[np.bool_]:
        """Evaluate a condition on each partition row: bool, shape (rows,)."""
        return np.fromiter((holds(self.values(row)) for row in rows), np.bool_, len(rows))
