"""Keys with CHAR columns, in every form in which writers may have stored them.

A key's bucket follows from its bytes, and Spark takes values of CHAR(n) that differ in blanks at their end
for one: ``'c3'`` was hashed with two blanks behind it where the writer pads, as Spark and Flink do, and as it
is where it does not, as the Java API. The padded form is the one that is answered where it is known.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import LimitExceededError
from app.planning.keys.answers import CharKeyBucket
from app.types import TypeRoot
from app.types.row_matrix import FieldValues

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.types import DataType, Value

MAX_BYTES: Final = 64 * 1024 * 1024
_VALUE_BYTES: Final = 64
"""About what Python takes for a value beside its bytes."""
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""Bytes that go on with a character of UTF-8."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyForms:
    """The forms of some keys.

    Attributes:
        fields: the key columns of all forms, each of shape (forms,).
        owners: for each form, which key it is of; ascending. The padded form of a key is its first.
    """

    fields: tuple[FieldValues, ...]
    owners: Sequence[int]

    def buckets(self, hashes: Sequence[int], buckets: Iterable[int | None]) -> tuple[CharKeyBucket, ...]:
        """One answer a key, from the hash and the bucket of each form."""
        answers = []
        found = zip(self.owners, hashes, buckets, strict=True)
        for _, forms in itertools.groupby(found, key=lambda form: form[0]):
            listed = [(hashed, bucket) for _, hashed, bucket in forms]
            first = next((form for form in listed if form[1] is not None), listed[0])
            others = {bucket for _, bucket in listed if bucket is not None} - {first[1]}
            answers.append(CharKeyBucket(*first, tuple(sorted(others))))
        return tuple(answers)


def key_forms(fields: Sequence[FieldValues], keys: int) -> KeyForms | None:
    """Every form of some keys; None where no column is CHAR.

    Args:
        fields: the key columns, each of shape (keys,).
        keys: how many keys.

    Raises:
        LimitExceededError: the forms of all keys take too much memory.
    """
    types = [field.type for field in fields]
    if all(each.root is not TypeRoot.CHAR for each in types):
        return None
    rows: list[tuple[Value | None, ...]] = []
    owners: list[int] = []
    left = MAX_BYTES
    for owner, key in enumerate(zip(*(field.tolist() for field in fields), strict=True)):
        lengths = [_form_lengths(value, each) for value, each in zip(key, types, strict=True)]
        longest = sum(_VALUE_BYTES + each[0] for each in lengths)
        left -= longest * math.prod(map(len, lengths))
        if left < 0:
            raise LimitExceededError(
                f"the padded forms of {keys} keys take more than {MAX_BYTES} bytes: ask for fewer at once",
                limit=MAX_BYTES,
            )
        forms = list(itertools.product(*map(_forms, key, lengths)))
        rows += forms
        owners += [owner] * len(forms)
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    made = tuple(FieldValues.of(values, each) for values, each in zip(columns, types, strict=True))
    return KeyForms(made, owners)


def _form_lengths(value: Value | None, data_type: DataType) -> range:
    """Bytes of each form of a value, the padded one first; of what has one form, 0."""
    if data_type.root is not TypeRoot.CHAR or not isinstance(value, bytes):
        return range(1)
    stem = value.rstrip(b" ")
    characters = len(stem.translate(None, _CONTINUATION))
    padded = len(stem) + max(0, data_type.precision - characters)
    return range(max(padded, len(value)), len(stem) - 1, -1)


def _forms(value: Value | None, lengths: range) -> list[Value | None]:
    if not isinstance(value, bytes) or lengths == range(1):
        return [value]
    stem = value.rstrip(b" ")
    return [stem.ljust(length) for length in lengths]
