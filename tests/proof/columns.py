"""Random columns: few values each, and what a reader of today makes of them in files of older schemas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from app.types import DataField, DataType, TypeRoot, Value, parse_type, sql_key
from app.types.civil_time import MILLIS_PER_DAY, NANOS_PER_DAY
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS
from app.types.values import integer_range, to_float32

TYPES: Final = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 4)",
    "DECIMAL(30, 4)",
    "CHAR(4)",
    "VARCHAR(20)",
    "STRING",
    "BINARY(3)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)
FLOATING: Final = ("FLOAT", "DOUBLE")
"""NaN and two zeros make them the most likely ones to go wrong."""
PARTITION_TYPES: Final = tuple(each for each in TYPES if not each.startswith(("BINARY", "BYTES")))
READ_OTHERWISE: Final = ("CHAR(4)", "TIMESTAMP(9)")
"""Types whose values Spark pads or cuts, so that several partitions may be one group."""
KEY_TYPES: Final = ("INT", "BIGINT", "STRING", "DATE", "DECIMAL(9, 2)", "TIMESTAMP(3)", "SMALLINT")

CHANGES: Final = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(9, 2)"),
    "SMALLINT": ("INT", "BIGINT", "FLOAT", "DOUBLE"),
    "INT": ("BIGINT", "DOUBLE", "DECIMAL(18, 4)", "STRING"),
    "BIGINT": ("DECIMAL(30, 4)", "INT"),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(9, 2)": ("DECIMAL(18, 4)", "DECIMAL(30, 4)"),
    "CHAR(4)": ("STRING",),
    "VARCHAR(20)": ("STRING",),
    "BINARY(3)": ("BYTES",),
    "DATE": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    "TIMESTAMP(0)": ("TIMESTAMP(3)", "TIMESTAMP(9)"),
    "TIMESTAMP(3)": ("TIMESTAMP(6)",),
}
"""Types that a column may get later."""

NULL: Final = 0
"""The code of NULL."""

_WORDS: Final = ("a", "ab", "abc", "b", "é", "z\U0001f600", "", "a%", "_b", "ab'c", "b\\", "%", "A")
_LONG: Final = ("a rather long word of text", "a rather long word of thought", "\U0001f600" * 18, "é" * 17)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column through the schemas of a table.

    Attributes:
        id: its permanent id.
        fields: by schema; None where it is not there.
        stored: by schema, the value of each code in a file of that schema.
        read: the value of each code to a reader of today; code 0 is NULL.
        starts: by schema, the codes that files of that schema may have.
    """

    id: int
    fields: tuple[DataField | None, ...]
    stored: tuple[list[Value | None], ...]
    read: list[Value | None]
    codes: tuple[list[int], ...]

    @property
    def field(self) -> DataField:
        """The column of the latest schema, where it has to be."""
        found = self.fields[-1]
        assert found is not None
        return found


def random_column(
    rng: Random, number: int, name: str, present: Sequence[bool], written: str | None = None, *, fixed: bool
) -> Column:
    """Return a column.

    ``rng``: the source of chance.
    ``number``: its id.
    ``name``: its first name.
    ``present``: whether each schema has it; the last one does.
    ``written``: its type; None for any.
    ``fixed``: neither its name nor its type change, and it has fewer values.
    """
    first = parse_type(written or rng.choice((*TYPES, *FLOATING)))
    types, names = [first], [name]
    for _ in present[1:]:
        last = types[-1]
        further = () if fixed or last.root is TypeRoot.VARCHAR else CHANGES.get(last.text, ())
        is_exact = len(types) == 1 or last == first
        options = [
            each for each in further if (is_exact or each not in ("STRING", "INT")) and _holds(each, first)
        ]
        types.append(parse_type(rng.choice(options)) if options and rng.random() < 0.3 else last)
        names.append(f"{name} {len(names)}" if not fixed and rng.random() < 0.15 else names[-1])
    base = random_values(rng, first, 4 if fixed else rng.randint(2, 9))
    stored = [[None, *(cast(value, first, each) for value in base)] for each in types]
    read = [None, *(cast(value, first, types[-1]) for value in base)]
    # What INT cuts off does not come back with a wider type: such files hold other values.
    codes = [
        [
            code
            for code, value in enumerate(of_type)
            if value is not None and repr(cast(value, each, types[-1])) == repr(read[code])
        ]
        or [NULL]
        for of_type, each in zip(stored, types, strict=True)
    ]
    # Newer files may hold what older ones could not.
    for at in range(1, len(types)):
        if types[at] == types[-1] and types[at] != first and not _cuts(first, types[at]):
            more = random_values(rng, types[at], 2)
            for other in range(len(types)):
                stored[other] += more if other >= at else [None] * len(more)
                if other >= at:
                    codes[other] += range(len(read), len(read) + len(more))
            read += more
            break
    fields = tuple(
        DataField(number, each, data_type) if is_there else None
        for each, data_type, is_there in zip(names, types, present, strict=True)
    )
    return Column(number, fields, tuple(stored), read, tuple(codes))


def random_values(rng: Random, data_type: DataType, count: int) -> list[Value]:
    """Return some values of a type, in its order, which lie close enough to be met by others."""
    drawn = {repr(value): value for value in (_value(rng, data_type) for _ in range(count))}
    if data_type.root is TypeRoot.CHAR and count > 1 and rng.random() < 0.8:
        # Another form of a value.
        padded = rng.choice([*drawn.values()]).decode().ljust(data_type.precision).encode()
        drawn[repr(padded)] = padded
    return sorted(drawn.values(), key=sql_key(data_type))


def cast(value: Value, written: DataType, present: DataType) -> Value:
    """Return what the engine's reader makes of a stored value of an older type."""
    if written.same_kind(present):
        return value
    match written.root, present.root:
        case (_, TypeRoot.VARCHAR) if written.root in INTEGER_BITS:
            return str(value).encode()
        case (_, TypeRoot.FLOAT | TypeRoot.DOUBLE):
            return float(value)
        case TypeRoot.DECIMAL, TypeRoot.DECIMAL:
            return int(value) * int(10 ** (present.scale - written.scale))
        case (_, TypeRoot.DECIMAL):
            return int(value) * int(10**present.scale)
        case TypeRoot.BIGINT, TypeRoot.INT:
            return (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)
        case TypeRoot.DATE, TypeRoot.TIMESTAMP:
            return int(value) * NANOS_PER_DAY
        case _:
            return value


def _holds(changed: str, first: DataType) -> bool:
    present = parse_type(changed)
    if present.root is not TypeRoot.DECIMAL or first.root not in INTEGER_BITS:
        return True
    return bool(10 ** (present.precision - present.scale) > integer_range(first)[1])


def _cuts(written: DataType, present: DataType) -> bool:
    return written.root in INTEGER_BITS and present.root in (TypeRoot.VARCHAR, TypeRoot.INT)


def _value(rng: Random, data_type: DataType) -> Any:
    root = data_type.root
    if root in INTEGER_BITS:
        low, high = integer_range(data_type)
        # BSI does not hold the least of all.
        return rng.choice([low + 1, high, 0]) if rng.random() < 0.1 else rng.randint(-9, 9)
    if root in FLOATING_ROOTS:
        special = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1e30]
        number = rng.choice(special) if rng.random() < 0.4 else rng.randint(-18, 18) / 2
        return to_float32(number) if root is TypeRoot.FLOAT else number
    if root in TIMESTAMP_ROOTS:
        unit = 10 ** (9 - data_type.precision)
        return rng.randint(-9, 9) * unit + rng.choice([0, 0, NANOS_PER_DAY, -3_600_000_000_000])
    return _OTHERS[root](rng, data_type)


def _text(rng: Random, data_type: DataType) -> bytes:
    words = _WORDS if data_type.precision < 20 or rng.random() < 0.7 else _LONG
    word = rng.choice([each for each in words if len(each) <= data_type.precision])
    blanks = rng.choice([0, 0, 0, 1]) if data_type.root is TypeRoot.CHAR else 0
    return (word + " " * blanks)[: data_type.precision].encode()


def _decimal(rng: Random, data_type: DataType) -> int:
    largest = 10 ** min(data_type.precision, 17) - 1
    return (
        rng.choice([largest, -largest])
        if rng.random() < 0.1
        else rng.randint(-9, 9) * rng.choice([1, 10, 100])
    )


_OTHERS: Final[dict[TypeRoot, Callable[[Random, DataType], Any]]] = {
    TypeRoot.BOOLEAN: lambda rng, _: rng.random() < 0.5,
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.DATE: lambda rng, _: (
        rng.choice([-719_528, 2_932_896]) if rng.random() < 0.05 else rng.randint(-9, 9)
    ),
    TypeRoot.TIME: lambda rng, _: rng.choice([0, 1, 999, 43_200_000, MILLIS_PER_DAY - 1]),
    **dict.fromkeys(STRING_ROOTS, _text),
    **dict.fromkeys(BINARY_ROOTS, lambda rng, _: bytes(rng.choices([0, 1, 127, 255], k=rng.randint(0, 3)))),
}
