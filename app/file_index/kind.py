"""What a kind of file index is: everything that planning, building and inspecting ask of one.

A kind is a package with a module ``kind`` in which a subclass of :class:`Kind` brings together the layout,
the reader of many files and the writer, and one line in :mod:`app.file_index.index_kinds`.
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

Index = TypeVar("Index")
Index_co = TypeVar("Index_co", covariant=True)
Options = TypeVar("Options")


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What is known of a column for which an index is proposed; ``values``: rows with a value."""

    data_type: DataType
    distinct: int
    values: int


@dataclass(frozen=True, slots=True)
class Proposal(Generic[Options]):
    """That an index suits a column; ``rank``: of the proposals for a column, the highest one is made."""

    rank: int
    reason: str
    options: Options


class FileStack(Protocol[Index_co]):
    """The indexes of one kind on one column, of m files."""

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Which indexes cannot be read, shape (m,); nothing is asked of these."""

    @property
    def row_counts(self) -> NDArray[np.int64] | None:
        """Rows of each file, shape (m,); None if the indexes do not tell."""

    def answers(self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime) -> Answers:
        """Whether files can have rows that meet a condition, which the kind can answer.

        Args:
            files: shape (k,): positions of files whose indexes are there and not broken.
            out_of_time: is asked before more than ``SHORT_LIST`` keys of a list are looked for.

        Returns:
            Shape (k,); UNASKED where time ran out.
        """

    def of_file(self, file: int) -> Index_co:
        """What one file's index says by itself, which is there and not broken.

        A :class:`~app.file_index.answers.RowIndex` of kinds that tell rows.
        """


class Kind(str, ABC, Generic[Index, Options]):
    """A kind of file index, which is equal to the name that files give it.

    ``Index`` is what it says of one file, and ``Options`` are those of the writer.
    """

    __slots__ = ()

    roots: ClassVar[frozenset[TypeRoot]]
    """Of the types that it takes."""
    options_class: ClassVar[type]
    """Of the options that the writer takes."""

    option_names: ClassVar[tuple[str, ...]] = ()
    """The options that a table may give to an index, as in ``file-index.<kind>.<column>.<option>``."""

    tells_rows: ClassVar[bool] = True
    """Whether it knows the rows of each key; else it only rules out whole files, value by value."""

    directory_bytes: ClassVar[int] = 0
    """At most about how many bytes the form over many files takes for one of the payloads."""

    def takes(self, data_type: DataType) -> bool:
        """Whether the engine can have written such an index on a column of this type."""
        return data_type.root in self.roots

    def can_answer(self, condition: Condition) -> bool:  # noqa: ARG002 - others look at it
        """Whether such an index may rule out anything; else it is not opened, and files are kept."""
        return True

    def settles(self, condition: Condition) -> bool:
        """Whether the answer is exact, so that no other index of the column is asked after it."""
        return self.tells_rows and condition.exact

    def false_positive_rate(self, index: Index) -> float | None:  # noqa: ARG002 - others look at it
        """How likely an index does not rule out a value that the file lacks; None if it knows the values."""
        return None

    @abstractmethod
    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> FileStack[Index]:
        """Reads the heads of the indexes of many files.

        ``payloads``: a column of m payloads, null where a file has no such index. ``strict``: raises
        CorruptIndexError where one is broken, which otherwise the stack tells.
        """

    @abstractmethod
    def parse_options(self, written: Mapping[str, str]) -> Options:
        """Reads the options of an index.

        ``written``: text of each option that is set, by its name; no others than :attr:`option_names`. Raises
        RequestError: a text is not what the option takes.
        """

    def written_options(self, options: Options) -> dict[str, str]:  # noqa: ARG002 - others look at them
        """The options that a table should set to get such an index, as text by name."""
        return {}

    @abstractmethod
    def write(self, column: KeyColumn, options: Options) -> bytes:
        """The payload of an index, as the engine reads it.

        Raises IndexWriteError: the kind cannot hold one of the column's values, or all of them.
        """

    @abstractmethod
    def describe(self, index: Index, data_type: DataType) -> dict[str, Json]:
        """What is in an index, for people who look at one."""

    @abstractmethod
    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        """What can be told of an index without knowing the column's type.

        Raises CorruptIndexError: the payload is broken.
        """

    @abstractmethod
    def propose(self, profile: ColumnProfile) -> Proposal[Options] | None:
        """Whether such an index suits a column of a type that the kind takes."""


def describe_bounds(bounds: tuple[Key, Key] | None, data_type: DataType) -> dict[str, Json]:
    """The smallest and the largest key as values of a type."""
    space = key_space(data_type)
    if bounds is None or space is None:
        return {"min": None, "max": None}
    low, high = (to_json(space.value(key), data_type) for key in bounds)
    return {"min": low, "max": high}
