"""Lists of literals, as one column of values without an object for each.

A list of 100,000 literals is read, bound and asked as a column. Whoever needs a literal of it as such, with
its position in the text, gets it made: a :class:`LiteralList` stands for the tuple of its literals wherever
an unbound predicate holds one. What the values of a
list are in the type of a column, :mod:`app.predicates.binding.fitting` says.

A request may have a list as an Arrow IPC stream in base64. The stream has one column, of any number of
batches. Each of its values is the JSON literal by which answers write it (:mod:`app.types.json_answers`), and
so means what that literal means:

============================================  ==================================================
type of the column                            JSON literal
============================================  ==================================================
integers, signed and unsigned                 number
floating point of 32 and 64 bits              number, or ``"NaN"`` and its kin
decimals of up to 38 digits                   text
strings                                       string
binaries                                      ``{"$hex": ".."}``
boolean                                       boolean
32-bit dates                                  ``"2025-08-01"``
times                                         ``"12:30:15.250"``
timestamps without time zone                  ``"2025-08-01T12:30:15"``: a wall clock
timestamps with any time zone                 ``"2025-08-01T12:30:15Z"``: an instant
============================================  ==================================================

Nulls are NULL. Streams with compressed buffers or dictionaries are refused: what they expand to has no bound.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import Any, Final, final, overload

import numpy as np
import pyarrow as pa

from app.errors import FilterError
from app.predicates.unbound import Literal, LiteralCount, LiteralKind
from app.types import DataType, Json, TypeRoot, Value, to_json
from app.types.civil_time import clock_text
from app.types.time_units import NANOS_PER_DAY, NANOS_PER_MICRO, NANOS_PER_MILLI, NANOS_PER_SECOND

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_HEADER_FIELD: Final = 8
"""Where the vtable of a flatbuffer ``Message`` tells where its header is."""
_COMPRESSION_FIELD: Final = 10
"""Where the vtable of a flatbuffer ``RecordBatch`` tells where its compression is."""

_NANOS: Final = {"s": NANOS_PER_SECOND, "ms": NANOS_PER_MILLI, "us": NANOS_PER_MICRO, "ns": 1}
_FIRST_DAY: Final = -719_162
_BEHIND_LAST_DAY: Final = 2_932_897
"""From 0001-01-01 to 9999-12-31 every date has one text; what lies outside is read one by one."""

_ToJson = Callable[[Any], "Json"]


@final
class ListedKind(Enum):
    """What the values of a list are, in the forms of :mod:`app.types.values`."""

    INTEGER = "integers of any size"
    TEXT = "strings, as ``str``"
    BINARY = "binaries"
    DATE = "days"
    CLOCK = "wall clocks"
    INSTANT = "instants"
    OTHER = "values that are only read one by one"


class LiteralList(Sequence[Literal]):
    """Literals of one kind.

    Args:
        kind: what the values are.
        values: those that are not NULL, in their order.
        literals: makes the literals, one for each value and each NULL.
        nulls: how many are NULL.
    """

    def __init__(
        self,
        kind: ListedKind,
        values: Sequence[Value | str],
        literals: Callable[[], Iterable[Literal]],
        nulls: int = 0,
    ) -> None:
        self.kind = kind
        self.values = values
        self.nulls = nulls
        self._literals = literals

    def __len__(self) -> int:
        return len(self.values) + self.nulls

    @overload
    def __getitem__(self, at: int) -> Literal: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Literal]: ...

    def __getitem__(self, at: int | slice) -> Literal | Sequence[Literal]:
        return self._one_by_one[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._one_by_one == tuple(other)

    def __hash__(self) -> int:
        return hash(self._one_by_one)

    def __repr__(self) -> str:
        return repr(self._one_by_one)

    @cached_property
    def _one_by_one(self) -> tuple[Literal, ...]:
        return tuple(self._literals())


def joined_literals(parts: Sequence[Sequence[Literal]]) -> Sequence[Literal]:
    """The literals of one or more parts, one part behind the other."""
    kinds = {part.kind if isinstance(part, LiteralList) else None for part in parts}
    lists = [part for part in parts if isinstance(part, LiteralList)]
    if len(kinds) > 1 or not lists:
        return tuple(chain.from_iterable(parts))
    if len(lists) == 1:
        return lists[0]
    values = list(chain.from_iterable(part.values for part in lists))
    nulls = sum(part.nulls for part in lists)
    return LiteralList(lists[0].kind, values, lambda: chain.from_iterable(lists), nulls)


def json_literals(written: Sequence[object]) -> Sequence[Literal]:
    """The literals that a list of JSON values stands for."""

    def one_by_one() -> Iterator[Literal]:
        return (Literal(LiteralKind.JSON, value) for value in written)

    match set(map(type, written)):
        case types if types == {int}:
            return LiteralList(ListedKind.INTEGER, written, one_by_one)  # type: ignore[arg-type] # just looked at
        case types if types == {str}:
            return LiteralList(ListedKind.TEXT, written, one_by_one)  # type: ignore[arg-type] # likewise
        case _:
            return tuple(one_by_one())


def arrow_literals(encoded: str, count: LiteralCount) -> LiteralList:
    """The literals of a stream.

    Args:
        encoded: the stream in base64.
        count: counts them before they are looked at.

    Raises:
        FilterError: this is no base64, or no stream of one column of a type above.
        LimitExceededError: there are too many.
    """
    try:
        content = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise FilterError(f'the "$arrow" of a list of literals is not base64: {error}') from error
    try:
        _check_messages(content)
        with pa.ipc.open_stream(content) as stream:
            if len(stream.schema) != 1:
                raise FilterError(
                    f'the "$arrow" of a list of literals has one column, not {len(stream.schema)}'
                )
            kind, value_of = _meaning(stream.schema.field(0).type)
            batches = list(stream)
            count.add(sum(batch.num_rows for batch in batches))
            for batch in batches:
                batch.validate(full=True)
            column = pa.chunked_array([batch.column(0) for batch in batches], stream.schema.field(0).type)
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, FilterError):
            raise
        raise FilterError(
            f'the "$arrow" of a list of literals is no Arrow IPC stream: {str(error)[:200]}'
        ) from error
    return _literals(column, kind, value_of)


def _literals(column: pa.ChunkedArray, kind: ListedKind, value_of: _ToJson) -> LiteralList:
    def one_by_one() -> Iterator[Literal]:
        for value in _values(column):
            yield Literal(LiteralKind.JSON, None if value is None else value_of(value))

    values = _values(column.drop_null())
    if kind in (ListedKind.DATE, ListedKind.CLOCK, ListedKind.INSTANT) and values:
        day = 1 if kind is ListedKind.DATE else NANOS_PER_DAY
        if not (_FIRST_DAY * day <= min(values) and max(values) < _BEHIND_LAST_DAY * day):
            kind = ListedKind.OTHER
    return LiteralList(kind, values, one_by_one, column.null_count)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values as Python has them; of times nanoseconds, and days of dates."""
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        unit = _NANOS[data_type.unit]
        return [None if each is None else each * unit for each in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_time(data_type):
        unit, whole = (
            _NANOS[data_type.unit],
            pa.int32() if data_type.bit_width == pa.int32().bit_width else pa.int64(),
        )
        return [None if each is None else each * unit for each in column.cast(whole).to_pylist()]
    if pa.types.is_date32(data_type):
        column = column.cast(pa.int32())
    is_plain = pa.types.is_integer(column.type) and not column.null_count
    listed: list[Any] = np.asarray(column).tolist() if is_plain else column.to_pylist()
    return listed


def _as(root: TypeRoot) -> _ToJson:
    """The form in which answers write values of a type."""
    data_type = DataType(root)
    return lambda value: to_json(value, data_type)


def _itself(value: Any) -> Json:
    return value  # type: ignore[no-any-return] # likewise


_MEANINGS: Final[dict[int, tuple[ListedKind, _ToJson]]] = {
    **dict.fromkeys(
        (pa.type_for_alias(f"{sign}int{bits}").id for sign in ("", "u") for bits in (8, 16, 32, 64)),
        (ListedKind.INTEGER, _itself),
    ),
    **dict.fromkeys((pa.string().id, pa.large_string().id), (ListedKind.TEXT, _itself)),
    **dict.fromkeys(
        (pa.binary().id, pa.large_binary().id, pa.binary(1).id), (ListedKind.BINARY, _as(TypeRoot.VARBINARY))
    ),
    **dict.fromkeys((pa.float32().id, pa.float64().id), (ListedKind.OTHER, _as(TypeRoot.DOUBLE))),
    **dict.fromkeys((pa.time32("ms").id, pa.time64("us").id), (ListedKind.OTHER, clock_text)),
    pa.bool_().id: (ListedKind.OTHER, _itself),
    pa.decimal128(1).id: (ListedKind.OTHER, "{:f}".format),
    pa.date32().id: (ListedKind.DATE, _as(TypeRoot.DATE)),
    pa.timestamp("us").id: (ListedKind.CLOCK, _as(TypeRoot.TIMESTAMP)),
}
"""By the id of an Arrow type: what its values are, and the JSON literal of one."""


def _meaning(data_type: pa.DataType) -> tuple[ListedKind, _ToJson]:
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        return ListedKind.INSTANT, _as(TypeRoot.TIMESTAMP_LTZ)
    if data_type.id not in _MEANINGS:
        raise FilterError(f'the "$arrow" of a list of literals has values of type {data_type}: cast them')
    return _MEANINGS[data_type.id]


def _check_messages(content: bytes) -> None:
    """Refuses dictionaries and compression, before anything is expanded."""
    for number, message in enumerate(pa.ipc.MessageReader.open_stream(content)):
        if message.type != ("record batch" if number else "schema"):
            raise FilterError(f'the "$arrow" of a list of literals has a {message.type}: write plain values')
        if number and _is_compressed(message.metadata):
            raise FilterError('the "$arrow" of a list of literals is compressed: write it without')


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the buffers of a record batch are compressed, of metadata that Arrow holds sound."""
    view = memoryview(metadata)
    message: int = _U32.unpack_from(view)[0]
    header_at = message + _field(view, message, _HEADER_FIELD)
    header = header_at + _U32.unpack_from(view, header_at)[0]
    return _field(view, header, _COMPRESSION_FIELD) != 0


def _field(view: memoryview, table: int, slot: int) -> int:
    """Where a field of a flatbuffer's table stands, counted from the table; 0 if it is absent."""
    vtable = table - _I32.unpack_from(view, table)[0]
    if slot >= _U16.unpack_from(view, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(view, vtable + slot)[0]
    return offset
