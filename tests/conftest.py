from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import golden_tables, golden_versions
from tests.growing_tables import GrowingTable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.golden_tables import GoldenWarehouse


# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenWarehouse:
    """The golden tables, unpacked; not to be written to."""
    return golden_tables.unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session", name="golden_versions")
def unpacked_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse per release, as :mod:`tests.golden_versions` names them; not to be written to."""
    return golden_versions.unpack(tmp_path_factory.mktemp("versions"))


@pytest.fixture
def growing(golden: GoldenWarehouse, tmp_path: Path) -> GrowingTable:
    """A table that tests may commit to, and change."""
    return GrowingTable.copy(golden, tmp_path)
