from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import golden_tables

if TYPE_CHECKING:
    from tests.golden_tables import GoldenWarehouse


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenWarehouse:
    """The golden tables, unpacked; not to be written to."""
    return golden_tables.unpack(tmp_path_factory.mktemp("golden"))
