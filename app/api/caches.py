"""The caches of all processes that serve together, as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import orjson

from app.api.problems import ProblemError, problem_of_status
from app.planning.service import IndexService
from app.server.processes import Processes

Statistics: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Numbers of each cache by its name."""

_STATISTICS: Final = b"caches"
_CLEAR: Final = b"clear"
_SHARED: Final = frozenset({"entries", "bytes", "capacity"})
"""What all processes see of the one directory of the disk cache."""


class Caches:
    """Asks and clears the caches of every process."""

    def __init__(self, service: IndexService, processes: Processes) -> None:
        self._service = service
        self._processes = processes
        processes.answer(_STATISTICS, self._own_statistics)
        processes.answer(_CLEAR, self._clear_own)

    def statistics(self) -> Statistics:
        """What each cache holds and how it has done, by its name; blocks for two seconds at most.

        Raises:
            ProblemError: a process did not answer in time.
        """
        return self._of_all(_STATISTICS, self._own_statistics())

    def clear(self) -> Statistics:
        """Empties all caches; gives what :meth:`statistics` would."""
        return self._of_all(_CLEAR, self._clear_own())

    def _own_statistics(self) -> bytes:
        return orjson.dumps(self._service.cache_statistics())

    def _clear_own(self) -> bytes:
        self._service.clear_caches()
        return self._own_statistics()

    def _of_all(self, question: bytes, own: bytes) -> Statistics:
        answers = [answer for answer in self._processes.ask(question) if not answer.is_gone]
        contents = [own, *(answer.content for answer in answers if answer.content)]
        if len(contents) <= len(answers):
            missing = len(answers) + 1 - len(contents)
            detail = (
                f"{missing} of {len(answers) + 1} processes did not answer in time; ask again in a moment"
            )
            raise ProblemError(problem_of_status(503, detail, headers={"Retry-After": "1"}))
        return _added([orjson.loads(each) for each in contents])


def _added(statistics: list[Statistics]) -> Statistics:
    return {
        cache: {
            member: max(numbers) if cache == "disk" and member in _SHARED else sum(numbers)
            for member in members
            if (numbers := [each[cache][member] for each in statistics])
        }
        for cache, members in statistics[0].items()
    }
