"""The kind ``bloom-filter``.

==============  ====================  ===========  =======================================================
kind            option                default      meaning
==============  ====================  ===========  =======================================================
bloom-filter    ``items``             1000000      number of distinct values to make room for
bloom-filter    ``fpp``               0.1          target probability of a false positive
==============  ====================  ===========  =======================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from app.errors import RequestError
from app.file_index.answers import Condition, Points
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bloom_filter.bloom_filter import DEFAULT_FPP, DEFAULT_ITEMS, BloomFilter
from app.file_index.bloom_filter.stack import BloomStack
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import ByteKeys, KeySpace
from app.file_index.kind import ColumnProfile, Kind, Proposal
from app.options import INT32_MAX, fraction, whole_number
from app.types import (
    BINARY_ROOTS,
    FLOATING_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    WHOLE_ROOTS,
    BytesColumn,
    DataType,
    Json,
)
from app.types.roaring import Buffer


@dataclass(frozen=True, slots=True)
class BloomFilterOptions:
    """Size of a bloom filter. Raises RequestError if there is no such filter, or a file cannot hold it."""

    items: int = DEFAULT_ITEMS
    fpp: float = DEFAULT_FPP

    def __post_init__(self) -> None:
        if self.items < 1:
            raise RequestError(f"items must be at least 1, found {self.items}")
        if not 0 < self.fpp < 1:
            raise RequestError(f"fpp must lie between 0 and 1, found {self.fpp}")
        if -self.items * math.log(self.fpp) / math.log(2) ** 2 >= INT32_MAX:
            raise RequestError(
                f"a bloom filter of {self.items} items at an fpp of {self.fpp} takes more than 256 MB"
            )


class BloomFilterKind(Kind[BloomFilter, BloomFilterOptions]):
    """The kind. See :mod:`app.file_index.bloom_filter.bloom_filter`. It rules out files, not rows."""

    __slots__ = ()

    roots: ClassVar = WHOLE_ROOTS | FLOATING_ROOTS | STRING_ROOTS | BINARY_ROOTS | TIMESTAMP_ROOTS
    options_class: ClassVar[type] = BloomFilterOptions
    option_names: ClassVar[tuple[str, ...]] = ("items", "fpp")
    tells_rows: ClassVar[bool] = False

    @override
    def can_answer(self, condition: Condition) -> bool:
        return isinstance(condition, Points) and not condition.negated

    @override
    def false_positive_rate(self, index: BloomFilter) -> float:
        return index.false_positive_rate

    @override
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> BloomStack:
        return BloomStack.read(payloads, space, strict=strict)

    @override
    def parse_options(self, written: Mapping[str, str]) -> BloomFilterOptions:
        return BloomFilterOptions(
            whole_number("items", written.get("items", str(DEFAULT_ITEMS))),
            fraction("fpp", written.get("fpp", str(DEFAULT_FPP))),
        )

    @override
    def written_options(self, options: BloomFilterOptions) -> dict[str, str]:
        # Without this option the engine makes room for a million values.
        return {"items": str(options.items)}

    @override
    def write(self, column: KeyColumn, options: BloomFilterOptions) -> bytes:
        return bloom_filter.write(column, options.items, options.fpp)

    @override
    def describe(self, index: BloomFilter, data_type: DataType) -> dict[str, Json]:
        return {"bits": 8 * len(index.bits), "hash_functions": index.hash_functions}

    @override
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        stack = BloomStack.read(BytesColumn.of([payload]), ByteKeys(), strict=True)
        return {"bits": int(stack.bits[0]), "hash_functions": int(stack.hash_functions[0])}

    @override
    def propose(self, profile: ColumnProfile) -> Proposal[BloomFilterOptions]:
        options = BloomFilterOptions(rounded_items(profile.distinct))
        return Proposal(20, "many values, of which filters select single ones", options)


def rounded_items(distinct: int) -> int:
    """Round a number of values up to two digits, leaving room for files with a few more."""
    unit: int = 10 ** max(0, len(str(distinct)) - 2)
    return max(1, -(-distinct // unit) * unit)


BLOOM_FILTER: Final[Kind[Any, Any]] = BloomFilterKind("bloom-filter")
