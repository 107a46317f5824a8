"""Callers name index files only: whatever else is in a warehouse is not read for them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.bucket_index import hash_index
from app.errors import CorruptIndexError, LimitExceededError, PathNotAllowedError
from app.observation import Observer, StorageCall, observed_by
from app.opening import create_service
from app.planning.request.requests import EvaluateRequest, IndexFileRef
from app.planning.service import IndexService
from app.planning.standalone import check_index_place
from app.settings import Settings
from tests import golden_cases
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each

NAME = "index-0b8f6c1e-7a55-4a30-8f0e-2b4a3d1c9e77-0"
GLOBAL = "db.db/t/index/btree-global-index-0b8f6c1e-7a55-4a30-8f0e-2b4a3d1c9e77.index"
KINDS = (None, "file_index", "deletion_vectors", "hash")


class ReadBytes(Observer):
    total = 0

    def storage_called(self, call: StorageCall) -> None:
        self.total += call.size_bytes


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> Iterator[IndexService]:
    made = create_service(Settings.load(warehouses={"main": str(golden.root)}))
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[IndexService]:
    """Yield a service on a warehouse of the test's own."""
    made = create_service(Settings.load(warehouses={"main": str(tmp_path)}))
    yield made
    made.close()


def put(root: Path, path: str, content: bytes) -> IndexFileRef:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return IndexFileRef(path=path)


@for_each("table", golden_cases.tables())
def test_of_all_files_of_a_table_index_files_alone_are_read(
    service: IndexService, golden: GoldenWarehouse, table: str
) -> None:
    files = [file for file in golden.table(table).rglob("*") if file.is_file()]
    others = 0
    for file in files:
        path = str(file.relative_to(golden.root))
        if file.suffix == ".index" or (file.name.startswith("index-") and file.parent.name != "manifest"):
            assert service.inspect("main", IndexFileRef(path=path), None, {})
            continue
        others += 1
        for kind in KINDS:
            with pytest.raises(PathNotAllowedError):
                service.inspect("main", IndexFileRef(path=path), kind, {})
        asked = EvaluateRequest(schema=(), files=(IndexFileRef(path=path),))
        (answer,) = service.evaluate("main", asked).files
        assert isinstance(answer.error, PathNotAllowedError)

    assert others


@pytest.mark.parametrize(
    "path",
    [
        f"db.db/t/index/{NAME}",
        f"db.db/t/dt=1/bucket-3/{NAME}",
        "db.db/t/bucket-0/data-1.parquet.index",
        "db.db/t/data/dt=1/hour=2/bucket-12/data-1.orc.index",
        "db.db/t/bucket-postpone/data-1.avro.index",
        GLOBAL,
    ],
)
def test_places_of_index_files(path: str) -> None:
    check_index_place(path)


@pytest.mark.parametrize(
    "path",
    [
        NAME,
        "a.index",
        f"db.db/{NAME}",
        f"db.db/t/{NAME}",
        f"db.db/t/manifest/{NAME}",
        f"db.db/t/index/{NAME}/x",
        f"db.db/t/index/x{NAME}",
        f"db.db/t/index/{NAME}.parquet",
        "db.db/t/index/index-1",
        "db.db/t/manifest/index-manifest-0b8f6c1e-7a55-4a30-8f0e-2b4a3d1c9e77-0",
        "db.db/t/bucket-0/data-1.parquet",
        "db.db/t/bucket-0/.index",
        "db.db/t/bucket-x/a.index",
        GLOBAL.replace("/index/", "/manifest/"),
        GLOBAL.replace("btree", "data"),
        GLOBAL.removesuffix(".index"),
        "db.db/t/a.index",
        "t/bucket-0/a.index",
        "file:///db.db/t/bucket-0/a.index",
        f"s3://b/db.db/t/index/{NAME}",
        "",
    ],
)
def test_places_of_other_files(path: str) -> None:
    with pytest.raises(PathNotAllowedError):
        check_index_place(path)


def test_a_file_with_the_name_of_a_file_index_alone_is_not_shown(own: IndexService, tmp_path: Path) -> None:
    file = put(tmp_path, "db.db/t/bucket-0/a.index", b"PAR1" * 100)

    for kind in KINDS:
        with pytest.raises(CorruptIndexError, match="expected a file index"):
            own.inspect("main", file, kind, {})


def test_a_file_that_is_too_large_is_not_read(own: IndexService, tmp_path: Path) -> None:
    file = put(tmp_path, f"db.db/t/index/{NAME}", b"")
    with (tmp_path / f"db.db/t/index/{NAME}").open("r+b") as sparse:
        sparse.truncate((256 << 20) + 4)

    with pytest.raises(LimitExceededError, match="files of at most"):
        own.inspect("main", file, None, {})


def test_hashes_come_in_parts(own: IndexService, tmp_path: Path) -> None:
    hashes = np.arange(-5, 6, dtype=np.int32)
    file = put(tmp_path, f"db.db/t/index/{NAME}", hash_index.write(hashes))

    found: list[int] = []
    offset: int | None = 0
    parts = 0
    while offset is not None:
        part: Any = own.inspect("main", file, None, {}, slice(offset, offset + 4))
        assert part["row_count"] == 11
        found += part["hashes"]
        offset = part["next_offset"]
        parts += 1

    assert found == hashes.tolist()
    assert parts == 3


def test_hashes_are_not_read_beside_those_that_are_listed(own: IndexService, tmp_path: Path) -> None:
    file = put(tmp_path, f"db.db/t/index/{NAME}", hash_index.write(np.arange(1_000_000)))
    account = ReadBytes()

    with observed_by(account):
        part: Any = own.inspect("main", file, None, {}, slice(500_000, 500_003))

    assert (part["row_count"], part["hashes"]) == (1_000_000, [500_000, 500_001, 500_002])
    assert account.total < 100


def test_a_file_that_is_cut_is_no_hash_index(own: IndexService, tmp_path: Path) -> None:
    file = put(tmp_path, f"db.db/t/index/{NAME}", bytes(10))

    with pytest.raises(CorruptIndexError, match="found 10 bytes"):
        own.inspect("main", file, None, {})


@pytest.mark.parametrize("table", ["append_sidecar", "append_dv32", "append_dv64"])
def test_what_is_another_index_is_not_shown_as_hashes(
    service: IndexService, golden: GoldenWarehouse, table: str
) -> None:
    files = [*golden.table(table).rglob("*.index"), *golden.table(table).glob("index/index-*")]

    assert files
    for file in files:
        given = IndexFileRef(content=file.read_bytes())
        for ref in (IndexFileRef(path=str(file.relative_to(golden.root))), given):
            with pytest.raises(CorruptIndexError, match="expected a hash index, found"):
                service.inspect("main", ref, "hash", {})


def test_operators_may_name_any_file(own: IndexService, golden: GoldenWarehouse, tmp_path: Path) -> None:
    source = min(golden.table("append_sidecar").glob("bucket-0/*.index"))
    shutil.copy(source, tmp_path / "x.bitmap")

    answer: Any = own.inspect("main", IndexFileRef(path="x.bitmap"), None, {}, any_place=True)

    assert answer["kind"] == "file_index"
