"""Which process reads which index files, where several that are new plan one table at the same time.

Each goes through units of index files in an order of its own, the same for all of its plans, and claims a
unit before it reads its files. Once it meets a claim of another, it leaves in the shared cache at once what
it reads; units that others have claimed come last, when most of them are there. A plan waits for the others
as long as it takes no more than a tenth longer than it would by itself, at the pace of what it read last;
then it reads their files, whoever has claimed them. Claims that take longer than that are not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Final, Generic, TypeVar

from app.planning.side_files.shared_segments import SharedSegments, Unit
from app.work.deadline import check_deadline, pause, wait_for

Turn = TypeVar("Turn")

LEAST_FILES: Final = 256
"""Fewer files of a unit are read in as little time as it takes to agree on who reads them."""

_LONGER: Final = 1.1
_LOOK_SECONDS: Final = 0.1
_ALONE_SECONDS: Final = 0.3
_TOGETHER_SECONDS: Final = 3.0
"""What asking for claims may take in any case: alone, and where others read, who spare more than that."""


@dataclass(slots=True)
class _Pace:
    """How fast this process reads, and in how many seconds it would read ``files`` files."""

    files: int
    started: float = field(default_factory=time.monotonic)
    of_file: float = 0.0
    """Seconds for a file, of the unit that was read last."""
    agreeing: float = 0.0
    """Seconds for claims, and for looking at units that others have claimed."""

    @property
    def alone(self) -> float:
        """Seconds that all files would take."""
        return self.files * self.of_file

    def may_wait(self, left: int) -> bool:
        """Whether there is time to wait, if ``left`` files may have to be read after that."""
        taken = time.monotonic() - self.started - self.agreeing
        return taken + left * self.of_file < _LONGER * self.alone


@dataclass(frozen=True, slots=True, eq=False)
class _Begun(Generic[Turn]):
    """A unit that is being read, of ``files`` files, since a time of the monotonic clock."""

    unit: Unit
    files: int
    turn: Turn
    since: float


@dataclass(slots=True, eq=False)
class SharedTurns(Generic[Turn]):
    """Units of index files that lack files, which a plan asks.

    Attributes:
        lacking: units in this process's order, and how many of their files are to be read.
        begin: begins to read what the caches lack of a unit; what it gives is asked later.
        is_spent: whether nothing more is to be read.
    """

    shared: SharedSegments
    lacking: Sequence[tuple[Unit, int]]
    begin: Callable[[Unit], Turn]
    is_spent: Callable[[], bool]
    _unshared: list[Unit] = field(default_factory=list)
    _are_others: bool = False

    def __iter__(self) -> Iterator[Turn]:
        """What ``begin`` gives of each unit, when it is to be asked.

        Raises DeadlineExceededError: the request's time ran out.
        """
        pace, asked = _Pace(sum(count for _, count in self.lacking)), 0.0
        before: _Begun[Turn] | None = None
        for step in self._steps(pace):
            begun = None if step is None else _Begun(*step, self.begin(step[0]), time.monotonic())
            if before is not None:
                yield before.turn
                since, asked = max(asked, before.since), time.monotonic()
                if before.files:
                    pace.of_file = (asked - since) / before.files
                    self._share(before.unit)
            before = begun

    def _steps(self, pace: _Pace) -> Iterator[tuple[Unit, int] | None]:
        """Units to begin, and how many files are read of each.

        None: what is begun is to be asked first.
        """
        late: list[tuple[Unit, int]] = []
        yield from self._claimed(pace, late)
        while late:
            check_deadline()
            unit, count = late[0]
            if self.is_spent() or (self._may_agree(pace) and self._take_over(unit, pace)):
                yield unit, 0
            elif self._may_agree(pace) and pace.may_wait(sum(count for _, count in late)):
                yield None
                pause(_LOOK_SECONDS)
                continue
            else:
                yield unit, count
            del late[0]
        yield None

    def _claimed(self, pace: _Pace, late: list[tuple[Unit, int]]) -> Iterator[tuple[Unit, int] | None]:
        """Those of :meth:`_steps` that this process claims; adds to ``late`` what others have claimed.

        The next unit is claimed, and begun, while one is read: as long as no other process is met, which
        would be left with nothing to read.
        """
        left = [*self.lacking]
        ahead: Future[bool] | None = None
        while left and (self._may_agree(pace) or ahead is not None):
            unit, count = left.pop(0)
            since = time.monotonic()
            is_mine = self.is_spent() or wait_for(ahead or self._claim(unit))
            ahead = None
            if is_mine:
                pace.agreeing += time.monotonic() - since
                if left and not self._are_others and self._may_agree(pace):
                    ahead = self._claim(left[0][0])
                yield unit, count
            else:
                self._are_others = True
                claimed = self.shared.claimed([unit for unit, _ in left])
                late += [(unit, count), *compress(left, claimed)]
                left = [each for each, is_claimed in zip(left, claimed, strict=True) if not is_claimed]
                pace.agreeing += time.monotonic() - since
            if self._are_others:
                yield None
        if self._are_others:
            late += left
        else:
            # Claims take too long, and nobody reads these.
            yield from left

    def _may_agree(self, pace: _Pace) -> bool:
        """Whether there is time to ask for anything that other processes say."""
        most = _TOGETHER_SECONDS if self._are_others else _ALONE_SECONDS
        return pace.agreeing < most + (_LONGER - 1) * pace.alone

    def _take_over(self, unit: Unit, pace: _Pace) -> bool:
        since = time.monotonic()
        is_there = self.shared.take_over(unit)
        if not is_there:
            pace.agreeing += time.monotonic() - since
        return is_there

    def _claim(self, unit: Unit) -> Future[bool]:
        return self.shared.readers.begin(partial(self.shared.claim, unit))

    def _share(self, unit: Unit) -> None:
        self._unshared.append(unit)
        if self._are_others:
            self.shared.offer(self._unshared[:])
            self._unshared.clear()
