"""How much work a plan may put into long lists of values, so that it ends in time.

A list of 100,000 values asked of the indexes of 100,000 files is ten thousand million questions. So questions
are counted before they are asked, values times files; a file that a bloom filter has to keep is asked no
further values. Once a plan has used up what it may, the lists in its filter count as unknown for the files
that are left: these are asked for the rest of the filter, and kept unless that rules them out. Counts are of
the request and the table alone, not of a clock, so that every page of a plan is of the same files, on every
replica.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from app.file_index.answers.allowance import SHORT_LIST
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, Constant, Unknown, leaves
from app.predicates.simplify import conjunction, disjunction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.predicates.model import BoundPredicate

FILE_QUESTIONS: Final = 200_000_000
"""Of the indexes of many files at once, whether they have a value: some seconds of one core."""

ROW_QUESTIONS: Final = 500_000
"""Of the indexes of single files, which of their rows have it: likewise."""

_MANY_PARTS: Final = Unknown("a filter of many parts")
_QUESTIONS_OF_TEST: Final = 1_000
"""A test of a stack of files takes as long as so many probes of bloom filters."""


@dataclass(slots=True)
class Effort:
    """What one plan has left.

    Attributes:
        file_questions: see :data:`FILE_QUESTIONS`.
        row_questions: see :data:`ROW_QUESTIONS`.
    """

    file_questions: int = FILE_QUESTIONS
    row_questions: int = ROW_QUESTIONS
    _unasked_files: int = 0
    _unasked_rows: int = 0
    _without: dict[int, tuple[BoundPredicate, int, BoundPredicate]] = field(default_factory=dict)
    """By the ``id`` of a filter: the filter, the values in its long lists, and what is left without these."""

    def take(self, questions: int) -> bool:
        """See :class:`app.file_index.answers.allowance.Allowance`."""
        if questions > self.file_questions:
            return False
        self.file_questions -= questions
        return True

    def of_files(self, predicate: BoundPredicate, files: int, *, with_bloom_filters: bool) -> BoundPredicate:
        """The filter that a stack of so many files is asked: the same, or one that is weaker.

        Only filters of many parts are; long lists are counted when they are asked (:meth:`take`).
        """
        _, values, without = self._split(predicate)
        # Bloom filters are probed file by file, other indexes have their values merged.
        cost = values * max(files if with_bloom_filters else 0, _QUESTIONS_OF_TEST)
        if without is not _MANY_PARTS or self.take(cost):
            return predicate
        self._unasked_files += files
        return without

    def leave_out(self, files: int) -> None:
        """Notes that so many files were not asked a long list."""
        self._unasked_files += files

    def of_rows(self, predicate: BoundPredicate) -> BoundPredicate:
        """The filter that a single file is asked: the same, or one that is weaker."""
        _, values, without = self._split(predicate)
        if values <= self.row_questions:
            self.row_questions -= values
            return predicate
        self._unasked_rows += 1
        return without

    def of_rows_of_files(self, predicate: BoundPredicate, files: int) -> tuple[int, BoundPredicate]:
        """As :meth:`of_rows`, of several files.

        Returns:
            How many of them, the first ones, are asked the filter, and what the others are asked.
        """
        _, values, without = self._split(predicate)
        asked = files if values == 0 else min(files, self.row_questions // values)
        self.row_questions -= asked * values
        self._unasked_rows += files - asked
        return asked, without

    @property
    def warnings(self) -> list[str]:
        """What was not asked, for the caller to know."""
        told = (
            (self._unasked_files, "whether they have values of the filter's long lists"),
            (self._unasked_rows, "which of their rows have values of the filter's long lists"),
        )
        return [
            f"{count} files are not asked {what}, which would take too long: shorter lists narrow the answer"
            for count, what in told
            if count
        ]

    def _split(self, predicate: BoundPredicate) -> tuple[BoundPredicate, int, BoundPredicate]:
        found = self._without.get(id(predicate))
        if found is None:
            values = sum(max(1, len(leaf.literals)) for leaf in _tests(predicate))
            without = predicate if values <= SHORT_LIST else _without_lists(predicate)
            if sum(1 for _ in _tests(without)) > SHORT_LIST:
                without = _MANY_PARTS
            found = self._without[id(predicate)] = predicate, 0 if without is predicate else values, without
        return found


def _tests(predicate: BoundPredicate) -> Iterator[BoundLeaf]:
    return (leaf for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf))


def _without_lists(predicate: BoundPredicate) -> BoundPredicate:
    """A weaker filter, in which long lists are unknown."""
    match predicate:
        case BoundLeaf(literals=literals):
            return predicate if len(literals) <= SHORT_LIST else Unknown(str(predicate))
        case BoundAnd(children):
            return conjunction(list(map(_without_lists, children)))
        case BoundOr(children):
            return disjunction(list(map(_without_lists, children)))
        case Constant() | Unknown():
            return predicate
        case _:
            assert_never(predicate)
