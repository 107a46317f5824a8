from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.storage import ByteCache, Readers, Warehouse
from app.table import Catalog, Table, TableReader
from app.table.storage import Storage
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.memory_storage import MemoryStorage

NAME = "versions"
DIRECTORY = f"{DATABASE}.db/{NAME}"


def metadata_reads(storage: MemoryStorage) -> list[str]:
    return [path for path in storage.reads if "/manifest/" in path]


@pytest.fixture(scope="session")
def reader_of() -> Iterator[Callable[[Storage], TableReader]]:
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
    """One golden table in memory, of several snapshots, to be changed at will."""
    paths = (path for path in golden.table(NAME).rglob("*") if path.is_file() and path.suffix != ".parquet")
    return MemoryStorage({str(path.relative_to(golden.root)): path.read_bytes() for path in paths})


@pytest.fixture
def table(storage: MemoryStorage, reader_of: Callable[[Storage], TableReader]) -> Table:
    return Catalog(reader_of(storage)).table(DATABASE, NAME)
