from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import Phase, settings
from xdist.scheduler import LoadScopeScheduling

from app.work.ledger import LEDGER
from tests import golden_cases
from tests.copied_tables import GrowingTable
from tests.downloads import Terminal, pytest_configure
from tests.golden_cases import GoldenWarehouse
from tests.spark.sessions import CONNECTOR

if TYPE_CHECKING:
    from xdist.remote import Producer


__all__ = ["pytest_configure"]

# How long an example takes says more of the machine than of the code. `.ci/run`, `make fuzz` and
# `make mutants` name a profile, which takes the place of the one that is loaded here.
settings.register_profile("quick", deadline=None, max_examples=15)
settings.register_profile("thorough", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=2_000)
settings.register_profile(
    "mutants",
    deadline=None,
    max_examples=25,
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    database=None,
)
settings.load_profile("quick")


_SHARED: Final = (
    *("tests/jvm/", "tests/spark/", "tests/jobs/", "tests/explorer/", "tests/proof/test_pairs.py"),
    *("tests/acceptance/test_engine_reads", "tests/storage/stores/test_azure.py"),
    *("tests/storage/stores/test_hdfs.py", "tests/telemetry/test_running_service.py"),
    *("tests/telemetry/test_workers.py",),
    *("tests/test_examples.py", "tests/test_getting_started.py"),
)
"""Tests that share a Spark, a browser, an engine that Maven builds or a server in another process.

One worker takes all of a group.
"""


_APART: Final = "tests/referee/"
"""Tests that each have a Spark and several engines of their own, so that any worker takes any of them."""


class _OneWorkerForOne(LoadScopeScheduling):  # type: ignore[misc] # xdist is not typed
    """Any worker takes any module, whose fixtures are then made once; what modules share goes to one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_APART):
            return nodeid
        return next((shared for shared in _SHARED if nodeid.startswith(shared)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Groups of `--dist loadgroup` have no effect with this release of pytest."""
    # The order is that of `pytest_collection_modifyitems`.
    config.option.loadscopereorder = False
    return _OneWorkerForOne(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first what keeps one worker for long, so that the others have enough to do beside it."""
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.nodeid.startswith(_APART):
        return -1
    shared = next((at for at, each in enumerate(_SHARED) if item.nodeid.startswith(each)), len(_SHARED))
    return shared + (shared == len(_SHARED) and item.get_closest_marker("long") is None)


_SECONDS_BETWEEN_LINES: Final = 3.0


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect without looking for garbage, since all that is imported stays, and say how far that is.

    Workers collect in silence, so the first of them says it.
    """
    if getattr(session.config, "workerinput", {}).get("workerid") == "gw0":
        session.config.pluginmanager.register(_Collecting())
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


class _Collecting:
    def __init__(self) -> None:
        self._count, self._told = 0, time.monotonic()

    def pytest_itemcollected(self) -> None:
        self._count += 1
        if time.monotonic() > self._told + _SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            Terminal.show(f"Collects the tests: {self._count:,} so far")


def pytest_collection_finish() -> None:
    """What is imported and collected stays, and garbage is not looked for in it."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the engine's connector for Spark, which no registry has, run where somebody names its jar."""
    if item.get_closest_marker("connector") and not CONNECTOR:
        pytest.skip("PAIMON_SPARK_CONNECTOR names no jar of the engine's connector for Spark 4.0")


@pytest.fixture
def limit_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets what the claims of this process may take, as if it held nothing else."""

    def limit(size: int) -> None:
        monkeypatch.setattr(LEDGER, "limit", size)
        monkeypatch.setattr(LEDGER, "own", 0)
        monkeypatch.setattr(LEDGER, "_resident", lambda: 0)

    return limit


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenWarehouse:
    """The golden tables, unpacked; not to be written to."""
    return golden_cases.unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session", name="golden_versions")
def unpacked_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse per release, as :mod:`tests.golden_cases` names them; not to be written to."""
    return golden_cases.unpack_versions(tmp_path_factory.mktemp("versions"))


@pytest.fixture
def growing(golden: GoldenWarehouse, tmp_path: Path) -> GrowingTable:
    """A table that tests may commit to, and change."""
    return GrowingTable.copy(golden, tmp_path)
