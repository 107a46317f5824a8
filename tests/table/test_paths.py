from app.options.table_options import TableOptions
from app.table import TablePaths, TableSchema
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from app.types.index_files import HASH, IndexFileMeta
from tests.tables import EMPTY_ROW

STRING = parse_type("STRING")
DAY = serialize_row([b"a/b"], [STRING])


def paths(options: dict[str, str] | None = None, *, partitioned: bool = False) -> TablePaths:
    keys = ("dt",) if partitioned else ()
    schema = TableSchema(0, (DataField(0, "dt", STRING),), keys, options=TableOptions(options or {}))
    return TablePaths("db.db/t", schema)


def index_entry(external_path: str | None = None) -> IndexEntry:
    return IndexEntry(
        FileKind.ADD, DAY, 3, IndexFileMeta(HASH, "index-1", 12, 3, external_path=external_path)
    )


def test_directories_of_new_files() -> None:
    assert paths().bucket_directory(EMPTY_ROW, 0) == "db.db/t/bucket-0"
    assert paths(partitioned=True).bucket_directory(DAY, 0) == "db.db/t/dt=a%2Fb/bucket-0"
    assert paths().bucket_directory(EMPTY_ROW, -2) == "db.db/t/bucket-postpone"
    below = paths({"data-file.path-directory": "/in/side/"})
    assert below.bucket_directory(EMPTY_ROW, 7) == "db.db/t/in/side/bucket-7"


def test_index_files() -> None:
    assert paths(partitioned=True).index_file(index_entry()) == "db.db/t/index/index-1"
    beside = paths({"index-file-in-data-file-dir": "true"}, partitioned=True)
    assert beside.index_file(index_entry()) == "db.db/t/dt=a%2Fb/bucket-3/index-1"
    assert beside.index_file(index_entry("s3://b/index-1")) == "s3://b/index-1"
