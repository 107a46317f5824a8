"""Kinds of file index: the interface that planning, building and inspecting use.

A kind is a package with a module ``kind``. A subclass of :class:`Kind` there brings together the layout, the
reader of many files and the writer. One line in :mod:`app.file_index.index_kinds` registers it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.file_index.answers import Answers, Condition, OutOfTime
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import Key, KeySpace, key_space
from app.types import BytesColumn, DataType, Json, TypeRoot, to_json
from app.types.roaring import Buffer

_Index = TypeVar("_Index")
_Index_co = TypeVar("_Index_co", covariant=True)
_Options = TypeVar("_Options")


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """Statistics of a column for which an index is proposed. ``values``: rows with a value."""

    data_type: DataType
    distinct: int
    values: int


@dataclass(frozen=True, slots=True)
class Proposal(Generic[_Options]):
    """An index that suits a column. The proposal of the highest ``rank`` wins."""

    rank: int
    reason: str
    options: _Options


class FileStack(Protocol[_Index_co]):
    """The indexes of one kind on one column, of m files."""

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Indexes that cannot be read and must not be evaluated, shape (m,)."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""

    @property
    def row_counts(self) -> NDArray[np.int64] | None:
        """Rows of each file, shape (m,). None if the indexes do not record them."""

    def answers(self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime) -> Answers:
        """Decide which files can have rows that meet a condition. ``can_answer`` must be true for it.

        ``files``: shape (k,): positions of files whose indexes are present and not broken. ``out_of_time``:
        checked before more than ``SHORT_LIST`` keys of a list are looked up. Return an answer for each file,
        shape (k,): UNEVALUATED where time ran out.
        """

    def of_file(self, file: int) -> _Index_co:
        """Return the index of one sound file. It is a ``RowIndex`` if the kind finds rows."""


class Kind(str, ABC, Generic[_Index, _Options]):
    """A kind of file index. As a string it is the kind's name in files."""

    __slots__ = ()

    roots: ClassVar[frozenset[TypeRoot]]
    """Roots of the types that the kind takes."""
    options_class: ClassVar[type]
    """Class of the options that the writer takes."""

    option_names: ClassVar[tuple[str, ...]] = ()
    """Options that a table may give to an index, as in ``file-index.<kind>.<column>.<option>``."""

    tells_rows: ClassVar[bool] = True
    """True if the index finds the rows of each key. Otherwise it only rules out whole files."""

    directory_bytes: ClassVar[int] = 0
    """Maximum bytes of the stacked form for each byte of a payload, approximately."""

    def takes(self, data_type: DataType) -> bool:
        """Return True if the engine can have written such an index on a column of this type."""
        return data_type.root in self.roots

    def can_answer(self, condition: Condition) -> bool:  # noqa: ARG002 - for subclasses
        """Return True if such an index may rule out files or rows. Otherwise it is not opened."""
        return True

    def settles(self, condition: Condition) -> bool:
        """Return True if the answer is exact, so that no other index of the column needs to be evaluated."""
        return self.tells_rows and condition.exact

    def false_positive_rate(self, index: _Index) -> float | None:  # noqa: ARG002 - for subclasses
        """Return the probability that an index passes a value that the file lacks, or None if it is exact."""
        return None

    @abstractmethod
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> FileStack[_Index]:
        """Read the heads of the indexes of many files.

        ``payloads``: a column of m payloads, null for a file without such an index. ``strict``: raises
        CorruptIndexError for a broken payload, which the stack otherwise marks in ``broken``.
        """

    @abstractmethod
    def parse_options(self, written: Mapping[str, str]) -> _Options:
        """Parse options by name, each one of :attr:`option_names`. Raises RequestError if one is invalid."""

    def written_options(self, options: _Options) -> dict[str, str]:  # noqa: ARG002 - for subclasses
        """Return options that a table sets to get such an index, as text by name."""
        return {}

    @abstractmethod
    def write(self, column: KeyColumn, options: _Options) -> bytes:
        """Write a payload for the engine. Raises IndexWriteError if the kind cannot hold the values."""

    @abstractmethod
    def describe(self, index: _Index, data_type: DataType) -> dict[str, Json]:
        """Describe an index as a JSON object."""

    @abstractmethod
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        """Describe an index as far as possible without a type. Raises CorruptIndexError if it is broken."""

    @abstractmethod
    def propose(self, profile: ColumnProfile) -> Proposal[_Options] | None:
        """Propose an index for a column of a type that the kind takes, or return None."""


def describe_bounds(bounds: tuple[Key, Key] | None, data_type: DataType) -> dict[str, Json]:
    """Describe the smallest and the largest key as values of a type."""
    space = key_space(data_type)
    if bounds is None or space is None:
        return {"min": None, "max": None}
    low, high = (to_json(space.value(key), data_type) for key in bounds)
    return {"min": low, "max": high}
