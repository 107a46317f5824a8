from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from app.planning.service import IndexService
from tests.copied_tables import CopiedTable, CopyTable
from tests.golden_cases import GoldenWarehouse
from tests.planning.tables_beside import Beside, MakeBeside, large
from tests.tables import MadeTables, open_service


@pytest.fixture(scope="session")
def service(golden: GoldenWarehouse) -> Iterator[IndexService]:
    service = open_service(golden.root, golden.allow_external(), engine_writes_only=True)
    yield service
    service.close()


@pytest.fixture
def copy_table(golden: GoldenWarehouse, tmp_path: Path) -> Iterator[CopyTable]:
    """Copy a golden table, so that the test may damage it."""
    with ExitStack() as copies:

        def copy(table: str) -> CopiedTable:
            copied = CopiedTable.copy(golden, table, tmp_path)
            copies.callback(copied.service.close)
            return copied

        yield copy


@pytest.fixture
def make_beside(tmp_path: Path) -> Iterator[MakeBeside]:
    with ExitStack() as made:

        def make(index: Callable[[int], bytes]) -> Beside:
            beside = Beside.write(tmp_path, index)
            made.callback(beside.service.close)
            return beside

        yield make


@pytest.fixture
def beside(make_beside: MakeBeside) -> Beside:
    return make_beside(large)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeTables]:
    root = tmp_path_factory.mktemp("warehouse")
    with closing(open_service(root)) as service:
        yield MadeTables(root, service)
