"""Draws tables of a seed until there are enough cases, and makes failures small."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from app.library import IndexService, open_service
from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.referee.histories import Drawing, History, Options, shown
from tests.referee.merged import merged_history
from tests.referee.processes import READER, Processes
from tests.referee.trials import WAREHOUSES, Failure, Run, Trial

_CONDITIONS: Final = 8
"""Of one selector."""
_CONDITIONS_OF_MERGED: Final = 40
"""Of tables that take longer to make, and have nothing but files of many writers."""


@dataclass
class Court:
    processes: Processes
    service: IndexService
    http: httpx.Client
    options: Options
    names: Iterator[str]
    draws_merged: bool

    @classmethod
    @contextmanager
    def opened(cls, directory: Path, merged_in: str | None = None) -> Iterator[Court]:
        """Start everything for the time of a block.

        ``merged_in``: the zone of all machines with Python. Every writer appends to each table, and the
        engine merges their manifests into one.
        """
        with Processes.of(directory, merged_in) as processes:
            settings: dict[str, Any] = {
                "warehouses": {name: str(processes.warehouse) for name in WAREHOUSES},
                "engine_writes_only": WAREHOUSES[1:],
            }
            options = processes.ask(READER, do="options")["options"]
            with (
                open_service(**settings) as service,
                listening(create_app(Settings.load(**settings)), lifespan="on") as http,
            ):
                names = (f"t{number}" for number in itertools.count())
                yield cls(processes, service, http, options, names, merged_in is not None)

    def run(self, seed: str, only: str | None = None) -> tuple[Run, list[str]]:
        """Return the table of a seed: what was counted, and a text for each failure, made small."""
        rng = Random(seed)
        history = merged_history(rng) if self.draws_merged else Drawing(rng, self.options).history()
        run, failures = self._try(history, seed, only)
        texts = []
        for failure in failures[:3]:
            small = self._shrunk(history, seed, failure)
            found = self._try(small, seed, failure.condition)[1] or [failure]
            texts.append(f"--table {seed!r}: {found[0]}\n{shown(small)}")
        return run, texts

    def _try(self, history: History, seed: str, only: str | None) -> tuple[Run, list[Failure]]:
        trial = Trial(self.processes, self.service, self.http, next(self.names))
        rng = Random(f"{seed} asks")
        failure = trial.make(history, rng)
        conditions = _CONDITIONS_OF_MERGED if self.draws_merged else _CONDITIONS
        asked = trial.ask(history, Random(f"{seed} questions"), conditions, only)
        found = [failure] if failure is not None else list(asked)
        trial.drop()
        return trial.run, found

    def _shrunk(self, history: History, seed: str, failure: Failure) -> History:
        """Return the history less all steps without which the same condition fails, too."""

        def fails(some: History) -> bool:
            return any(
                each.condition == failure.condition for each in self._try(some, seed, failure.condition)[1]
            )

        return shrunk(history, fails)


def shrunk(history: History, fails: Callable[[History], bool]) -> History:
    """Return the history less each step that it fails without."""
    for at in reversed(range(len(history.steps))):
        if fails(less := history.without(at)):
            history = less
    return history
