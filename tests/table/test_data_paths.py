"""Data files of writers that name directories differently."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from app.options.table_options import TableOptions
from app.table import DataPaths, TablePaths, TableReader, TableSchema
from app.table.storage import Storage
from app.types import DataField, parse_json, parse_type
from app.types.binary_row.row import serialize_row
from tests.memory_storage import MemoryStorage
from tests.tables import EMPTY_ROW, entry

ROOT = "db.db/t"
FILE = "data-1.parquet"  # of `entry`

PathsOf = Callable[..., DataPaths]


class ListedStorage(MemoryStorage):
    """Files that are there, and the directories that were listed."""

    def __init__(self, *paths: str) -> None:
        super().__init__({f"{ROOT}/{path}": b"" for path in paths})
        self.listed: list[str] = []

    def list_names(self, directory: str) -> list[str]:
        self.listed.append(directory.removeprefix(ROOT).removeprefix("/"))
        return super().list_names(directory)


@pytest.fixture
def paths_of(reader_of: Callable[[Storage], TableReader]) -> PathsOf:
    def paths(storage: Storage, *types: str, version: str = "1", **options: str) -> DataPaths:
        fields = tuple(DataField(at, f"p{at}", parse_type(text)) for at, text in enumerate(types))
        names = tuple(field.name for field in fields)
        schema = TableSchema(0, fields, names, options=TableOptions(options))
        return DataPaths(TablePaths(ROOT, schema), reader_of(storage), version)

    return paths


def row_of(types: Sequence[str], *values: Any) -> bytes:
    parsed = [parse_type(text) for text in types]
    return serialize_row([parse_json(value, of) for value, of in zip(values, parsed, strict=True)], parsed)


def path_of(paths: DataPaths, types: Sequence[str], *values: Any) -> str:
    found = paths.data_file(entry(partition=row_of(types, *values)))
    return found.removeprefix(f"{ROOT}/").removesuffix(f"/bucket-0/{FILE}")


# What pypaimon 1.3.1, 1.4.2, 2.0.0 and 2.1.0 call directories beside the engine, by the values of a column.
OTHERS = [
    ("DATE", "2026-01-02", ["2026-01-02"]),
    ("DATE", None, ["None"]),
    ("BOOLEAN", True, ["True"]),
    ("BOOLEAN", False, ["False"]),
    ("TIMESTAMP(0)", "2026-01-01 12:00:00", ["2026-01-01 12:00:00"]),
    ("TIMESTAMP(3)", "2026-01-01 12:00:00.123", ["2026-01-01 12:00:00.123000"]),
    ("TIMESTAMP(6)", "2026-01-01 12:00:00.123456", ["2026-01-01 12:00:00.123456"]),
    ("TIMESTAMP(9)", "2026-01-01 12:00:00.123456789", ["2026-01-01 12:00:00.123456789"]),
    ("TIME(3)", "12:00:00", ["12:00:00"]),
    ("TIME(3)", "00:00:01.5", ["00:00:01.500000"]),
    ("DECIMAL(20, 10)", "0.0000000001", ["1E-10"]),
    ("DECIMAL(38, 10)", "1234567890123456789012345678.0000000001", []),
    ("DECIMAL(9, 2)", "-0.05", []),
    ("FLOAT", 0.1, ["0.10000000149011612"]),
    ("FLOAT", 1e10, ["10000000000.0"]),
    ("DOUBLE", 1e-5, ["1e-05"]),
    ("DOUBLE", "NaN", ["nan"]),
    ("DOUBLE", "-Infinity", ["-inf"]),
    ("DOUBLE", -0.0, []),
    ("BIGINT", -1, []),
    ("INT", None, ["None"]),
    ("STRING", "plain", []),
    ("STRING", "é", []),
    ("STRING", "a:b", ["a:b"]),
    ("STRING", "a%3Ab", ["a%3Ab"]),
    ("STRING", "a/b", ["a/b"]),
    ("STRING", "", [""]),
    ("STRING", " ", [" "]),
    ("STRING", "\u00a0", ["__DEFAULT_PARTITION__"]),
]


@pytest.mark.parametrize(("data_type", "value", "others"), OTHERS)
def test_a_file_is_where_its_writer_put_it(
    paths_of: PathsOf, data_type: str, value: Any, others: list[str]
) -> None:
    row = row_of([data_type], value)
    engine = paths_of(MemoryStorage(), data_type).paths.partition_directory(row).removeprefix(f"{ROOT}/")
    storage = ListedStorage(f"{engine}/bucket-0/{FILE}")

    assert path_of(paths_of(storage, data_type), [data_type], value) == engine
    assert storage.listed == [""] * bool(others)
    for other in others:
        storage = ListedStorage(f"p0={other}/bucket-0/{FILE}")
        assert path_of(paths_of(storage, data_type), [data_type], value) == f"p0={other}"


def test_without_legacy_names_the_engine_and_python_agree_on_dates(paths_of: PathsOf) -> None:
    storage = ListedStorage()
    paths = paths_of(storage, "DATE", **{"partition.legacy-name": "false"})

    assert path_of(paths, ["DATE"], "2026-01-02") == "p0=2026-01-02"
    assert storage.listed == []


def test_a_partition_that_is_nowhere_has_the_name_that_the_engine_gives_it(paths_of: PathsOf) -> None:
    paths = paths_of(ListedStorage("p0=1/bucket-0/other"), "DATE")

    assert path_of(paths, ["DATE"], "2026-01-02") == "p0=20455"
    assert paths.moved([row_of(["DATE"], "2026-01-02")]) == [[]]


def test_where_both_directories_exist_files_are_looked_for_in_them(paths_of: PathsOf) -> None:
    storage = ListedStorage(
        "p0=20455/bucket-0/new", "p0=2026-01-02/bucket-0/old", "p0=2026-01-02/bucket-1/elsewhere"
    )
    locate = paths_of(storage, "DATE").locate(row_of(["DATE"], "2026-01-02"), 0)

    assert locate("old") == f"{ROOT}/p0=2026-01-02/bucket-0"
    assert locate("new") == locate("elsewhere") == f"{ROOT}/p0=20455/bucket-0"
    assert storage.listed == ["", "p0=2026-01-02/bucket-0"]


def test_a_version_lists_a_directory_once_for_all_of_its_partitions(paths_of: PathsOf) -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 29)]
    storage = ListedStorage(*(f"p0={day}/bucket-0/{FILE}" for day in days[1:]), "p0=20454/bucket-0/x")
    paths = paths_of(storage, "DATE")

    moved = paths.moved([row_of(["DATE"], day) for day in days])

    assert moved == [None, *([f"{ROOT}/p0={day}"] for day in days[1:])]
    assert storage.listed == [""]


def test_the_next_version_looks_again(paths_of: PathsOf) -> None:
    storage = ListedStorage("p0=20455/bucket-0/other")
    paths = paths_of(storage, "DATE")
    assert path_of(paths, ["DATE"], "2026-01-02") == "p0=20455"
    storage.files = {f"{ROOT}/p0=2026-01-02/bucket-0/{FILE}": b""}

    assert path_of(paths, ["DATE"], "2026-01-02") == "p0=20455"
    later = DataPaths(paths.paths, paths.reader, "2")
    assert path_of(later, ["DATE"], "2026-01-02") == "p0=2026-01-02"


def test_levels_are_listed_as_far_as_it_takes_to_tell_directories_apart(paths_of: PathsOf) -> None:
    types = ["INT", "DATE", "STRING"]
    storage = ListedStorage("p0=7/p1=2026-01-02/p2=a:b/bucket-0/x", "p0=7/p1=20456/p2=a%3Ab/bucket-0/x")
    paths = paths_of(storage, *types)

    assert path_of(paths, types, 7, "2026-01-02", "c") == "p0=7/p1=2026-01-02/p2=c"
    assert storage.listed == ["p0=7"]
    assert path_of(paths, types, 7, "2026-01-02", "a:b") == "p0=7/p1=2026-01-02/p2=a:b"
    assert path_of(paths, types, 7, "2026-01-03", "a:b") == "p0=7/p1=20456/p2=a%3Ab"


@pytest.mark.parametrize("value", ["../x", "a/../../x", "a//b", "a/.", "/"])
def test_a_value_never_leads_out_of_its_directory(paths_of: PathsOf, value: str) -> None:
    storage = ListedStorage("x/bucket-0/x", f"p0={value}/bucket-0/x")
    path = path_of(paths_of(storage, "STRING"), ["STRING"], value)

    assert not {"", ".", ".."} & {*path.split("/")}


def test_a_table_without_partitions_lists_nothing(paths_of: PathsOf) -> None:
    storage = ListedStorage()

    assert paths_of(storage).data_file(entry()) == f"{ROOT}/bucket-0/{FILE}"
    assert paths_of(storage).data_file(entry(bucket=-2)) == f"{ROOT}/bucket-postpone/{FILE}"
    assert paths_of(storage).moved([EMPTY_ROW]) == [None]
    assert storage.listed == []


def test_external_files_are_where_their_metadata_says(paths_of: PathsOf) -> None:
    storage = ListedStorage()
    outside = entry(partition=row_of(["DATE"], "2026-01-02"), external_path=f"s3://b/x/{FILE}")

    assert paths_of(storage, "DATE").data_file(outside) == f"s3://b/x/{FILE}"
    assert storage.listed == []


def test_directories_below_a_directory_of_the_table(paths_of: PathsOf) -> None:
    storage = ListedStorage(f"in/side/p0=2026-01-02/bucket-0/{FILE}")
    paths = paths_of(storage, "DATE", **{"data-file.path-directory": "/in/side/"})

    assert path_of(paths, ["DATE"], "2026-01-02") == "in/side/p0=2026-01-02"
