"""How long a plan may wait for index files (:class:`Budget`), and how much it may ask of them (`Effort`).

A list of 100,000 values asked of the indexes of 100,000 files is ten thousand million questions. So questions
are counted before they are asked, values times files; a file that a bloom filter has to keep is asked no
further values. Once a plan has used up what it may, the lists in its filter count as unknown for the files
that are left: these are asked for the rest of the filter, and kept unless that rules them out. Counts are of
the request and the table alone, not of a clock, so that every page of a plan is of the same files, on every
replica.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self, assert_never

from app.file_index.answers.conditions import SHORT_LIST
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Unknown, leaves
from app.predicates.simplify import conjunction, disjunction
from app.storage import remaining_seconds

FILE_QUESTIONS: Final = 200_000_000
"""Of the indexes of many files at once, whether they have a value: some seconds of one core."""

ROW_QUESTIONS: Final = 500_000
"""Of the indexes of single files, which of their rows have it: likewise."""

_MANY_PARTS: Final = Unknown("a filter of many parts")
_QUESTIONS_OF_TEST: Final = 1_000
"""A test of a stack of files takes as long as so many probes of bloom filters."""


@dataclass(slots=True)
class Effort:
    """What one plan has left; the :class:`app.file_index.answers.conditions.QuestionLimit` of its stacks.

    The files of a manifest are asked together where their indexes are at hand, and in portions where they
    have to be read. What is merged for all of them is counted once either way.

    Attributes:
        file_questions: see :data:`FILE_QUESTIONS`.
        row_questions: see :data:`ROW_QUESTIONS`.
    """

    file_questions: int = FILE_QUESTIONS
    row_questions: int = ROW_QUESTIONS
    _manifest: int = 0
    _taken: dict[Hashable, bool] = field(default_factory=dict)
    _unasked_files: int = 0
    _unasked_rows: int = 0
    _without: dict[int, tuple[BoundPredicate, int, BoundPredicate]] = field(default_factory=dict)
    """By the ``id`` of a filter: the filter, the values in its long lists, and what is left without these."""

    def take(self, questions: int) -> bool:
        """See :class:`app.file_index.answers.conditions.QuestionLimit`."""
        if questions > self.file_questions:
            return False
        self.file_questions -= questions
        return True

    def give_back(self, questions: int) -> None:
        """See :class:`app.file_index.answers.conditions.QuestionLimit`."""
        self.file_questions += questions

    def take_once(self, what: Hashable, questions: int) -> bool:
        """See :class:`app.file_index.answers.conditions.QuestionLimit`."""
        key = self._manifest, what
        if key not in self._taken:
            self._taken[key] = self.take(questions)
        return self._taken[key]

    def of_files(
        self, predicate: BoundPredicate, manifest: int, files: int, *, with_bloom_filters: bool
    ) -> BoundPredicate:
        """The filter that a stack of so many files of a manifest is asked next: the same, or a weaker one.

        Only filters of many parts are; long lists are counted when they are asked (:meth:`take`).
        """
        self._manifest = manifest
        _, values, without = self._split(predicate)
        # Bloom filters are probed file by file, other indexes have their values merged.
        if without is not _MANY_PARTS or (
            self.take_once(id(predicate), values * _QUESTIONS_OF_TEST)
            and self.take(values * files if with_bloom_filters else 0)
        ):
            return predicate
        self._unasked_files += files
        return without

    @property
    def is_exhausted(self) -> bool:
        """Whether something was not asked."""
        return bool(self._unasked_files or self._unasked_rows)

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

    @property
    def warnings(self) -> list[str]:
        """What was not asked, for the caller to know."""
        left_out = (
            (self._unasked_files, "whether they have values of the filter's long lists"),
            (self._unasked_rows, "which of their rows have values of the filter's long lists"),
        )
        return [
            f"{count} files are not asked {what}, which would take too long: shorter lists narrow the answer"
            for count, what in left_out
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


_SHARE_OF_DEADLINE: Final = 2 / 3


@dataclass(frozen=True, slots=True)
class Budget:
    """The time in which a plan may begin to read index files.

    What was loaded by then, by this plan or by an earlier one, is asked; the other files are kept.

    Attributes:
        ends: when it is used up, on the monotonic clock; None for a plan that waits for all of them.
    """

    ends: float | None = None

    @classmethod
    def begin(cls, milliseconds: int | None) -> Self:
        """A budget that begins now; None for one without an end.

        It leaves a third of what the request has until its deadline to whatever else the answer takes: a
        request that waited for a thread, or for its version, has less time left than its budget says.
        """
        if milliseconds is None:
            return cls(None)
        remaining = remaining_seconds()
        until = math.inf if remaining is None else remaining * _SHARE_OF_DEADLINE
        return cls(time.monotonic() + min(milliseconds / 1000, until))

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be read."""
        return self.ends is not None and time.monotonic() >= self.ends


UNBOUNDED: Final = Budget()
"""For a plan that somebody waits for, whatever it takes."""

YIELDING: Final = Budget(math.inf)
"""For a plan that nobody waits for: it reads in small parts, so that others come in between."""
