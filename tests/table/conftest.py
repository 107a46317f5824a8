from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.storage import ByteCache, Readers, Warehouse
from app.table.storage import Storage, TableReader
from app.table.table import Catalog, Table
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.memory_storage import MemoryStorage
from tests.table.versioned_table import NAME


@pytest.fixture(scope="session")
def reader_of() -> Iterator[Callable[[Storage], TableReader]]:
    """Makes readers with caches of their own."""
    threads = Readers(16)

    def cache(name: str) -> ByteCache[Any]:
        return ByteCache(name, 1 << 24, lambda item: item.nbytes)

    yield lambda storage: TableReader(storage, cache("metadata"), cache("manifests"), threads)
    threads.close()


@pytest.fixture(scope="session")
def golden_catalog(golden: GoldenWarehouse, reader_of: Callable[[Storage], TableReader]) -> Catalog:
    warehouse = Warehouse("golden", str(golden.root), allow_external=golden.allow_external())
    return Catalog(reader_of(warehouse))


@pytest.fixture
def storage(golden: GoldenWarehouse) -> MemoryStorage:
    """That of :mod:`tests.table.versioned_table`."""
    paths = (path for path in golden.table(NAME).rglob("*") if path.is_file() and path.suffix != ".parquet")
    return MemoryStorage({str(path.relative_to(golden.root)): path.read_bytes() for path in paths})


@pytest.fixture
def table(storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]) -> Table:
    return Catalog(reader_of(storage)).table(DATABASE, NAME)
