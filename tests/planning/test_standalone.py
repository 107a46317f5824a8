"""Index files without a table: golden ones are answered as by the library, damaged ones one by one."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.building.columns import DataFormat
from app.errors import CorruptIndexError, FileMissingError, FilterError, PathNotAllowedError, RequestError
from app.planning.evaluated_files import FileVerdict
from app.planning.request.requests import ColumnRef, EvaluateRequest, IndexFileRef, SortKey, TopN
from app.planning.service import IndexService
from app.types import parse_type
from tests import golden_cases
from tests.data_files import write_data_file
from tests.global_index_files import Habits, btree_file
from tests.golden_cases import GoldenIndex, GoldenWarehouse
from tests.golden_checks import together
from tests.tables import open_service


def schema_of(golden: GoldenIndex) -> list[ColumnRef]:
    return [ColumnRef(name=column["name"], type=column["type"]) for column in golden.document["columns"]]


def ask(service: IndexService, golden: GoldenIndex, *files: IndexFileRef, **asked: Any) -> list[FileVerdict]:
    return list(
        service.evaluate("golden", EvaluateRequest(schema=schema_of(golden), files=files, **asked)).files
    )


def whole(golden: GoldenIndex) -> IndexFileRef:
    return IndexFileRef(content=golden.content, name="whole")


def test_without_a_row_count_no_match_is_lost(service: IndexService) -> None:
    golden = golden_cases.load_index("bitmap2-int")
    for check in golden.document["checks"]:
        known, unknown = (
            ask(service, golden, whole(golden), filter=check["predicate"], row_count=rows)[0]
            for rows in (golden.row_count, None)
        )

        if not known.skip:
            assert not unknown.skip
        if known.selection is not None and unknown.selection is not None:
            assert set(known.selection) <= set(unknown.selection)


def test_damage_is_told_of_the_damaged_file_alone(service: IndexService) -> None:
    golden = golden_cases.load_index("bitmap2-int")
    predicate = golden.document["checks"][0]["predicate"]
    for damage in golden_cases.document("file-index", "damaged")["damaged"]:
        broken = IndexFileRef(content=bytes.fromhex(damage["hex"]), name="broken")
        equal = damage["checks"][0]
        request = EvaluateRequest(
            schema=[ColumnRef(name="c", type="INT")],
            files=(whole(golden), broken, whole(golden)),
            filter=predicate,
            explain=True,
        )

        first, middle, last = service.evaluate("golden", request).files

        assert first == last
        assert first.error is None
        if damage["name"] == "unknown_index":  # a later release may know more kinds
            assert (middle.error, middle.skip, middle.selection) == (None, False, None)
        elif "error" in equal["expect"]:
            assert isinstance(middle.error, CorruptIndexError), damage["name"]
            assert "broken" in str(middle.error)
            assert not middle.skip
            assert middle.selection is None
        else:
            assert middle.error is None, damage["name"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"filter": "nowhere = 1"}, FilterError),
        ({"filter": "c ="}, FilterError),
        ({"top_n": TopN(order_by=(SortKey(column="nowhere"),), limit=3)}, FilterError),
        ({"schema": [ColumnRef(name="c", type="INT INT")]}, RequestError),
    ],
)
def test_a_request_that_fits_no_file_is_refused_as_a_whole(
    service: IndexService, changes: dict[str, Any], error: type[Exception]
) -> None:
    golden = golden_cases.load_index("bitmap2-int")
    request: dict[str, Any] = {
        "schema": [ColumnRef(name="c", type="INT")],
        "files": (whole(golden),),
    } | changes

    with pytest.raises(error):
        service.evaluate("golden", EvaluateRequest(**request))


def test_a_path_leads_into_the_warehouse(service: IndexService, golden: GoldenWarehouse) -> None:
    side_file = min(golden.table("append_sidecar").glob("bucket-0/*.index"))
    path = str(side_file.relative_to(golden.root))
    by_path = IndexFileRef(path=path)
    by_content = IndexFileRef(content=side_file.read_bytes(), name=path)
    request = EvaluateRequest(
        schema=[ColumnRef(name="grade", type="INT")], files=(by_path, by_content), filter="grade = 2667"
    )

    first, second = service.evaluate("golden", request).files

    assert first == second
    assert first.error is None
    assert service.inspect("golden", by_path, None, {}) == service.inspect("golden", by_content, None, {})


def test_a_path_that_leads_nowhere_is_told_of_that_file(service: IndexService) -> None:
    golden = golden_cases.load_index("bitmap2-int")

    (answer,) = ask(service, golden, IndexFileRef(path="golden.db/t/bucket-0/nowhere.index"), filter="c = 1")

    assert isinstance(answer.error, FileMissingError)
    assert not answer.skip


@together("kind", "name", golden_cases.index_names_by_kind())
def test_inspect_lists_every_index_of_a_file(service: IndexService, name: str) -> None:
    golden = golden_cases.load_index(name)

    for types in ({}, {column.name: str(column.type) for column in schema_of(golden)}):
        described: Any = service.inspect("golden", whole(golden), None, types)

        listed = {
            column["name"]: {index["type"] for index in column["indexes"]} for column in described["columns"]
        }
        assert described["kind"] == "file_index"
        assert described["size"] == len(golden.content)
        assert listed == {
            column: {index["name"] for index in indexes}
            for column, indexes in golden.document["indexes"].items()
        }
        assert not any("error" in index for column in described["columns"] for index in column["indexes"])


def test_inspect_lists_every_deletion_vector(service: IndexService) -> None:
    for name in golden_cases.documents("deletion-vectors"):
        for file in golden_cases.document("deletion-vectors", name).get("files", ()):
            content = golden_cases.files("deletion-vectors")[file["index_file_meta"]["file_name"]]

            described: Any = service.inspect("golden", IndexFileRef(content=content), None, {})

            assert described["kind"] == "deletion_vectors"
            assert [(each["offset"], each["cardinality"]) for each in described["vectors"]] == [
                (each["offset"], each["cardinality"]) for each in file["vectors"]
            ]


def test_inspect_lists_hashes_in_stored_order(service: IndexService) -> None:
    for file in golden_cases.document("hash-index", "files")["files"]:
        content = golden_cases.files("hash-index")[file["file"]]

        described: Any = service.inspect("golden", IndexFileRef(content=content), "hash", {})

        assert described["hashes"] == file["hashes"]
        assert described["row_count"] == len(file["hashes"])


@pytest.mark.parametrize("kind", ["file_index", "deletion_vectors"])
def test_inspect_refuses_damaged_content_by_its_name(service: IndexService, kind: str) -> None:
    content = {
        "file_index": golden_cases.load_index("bitmap2-int").content[:30],
        "deletion_vectors": golden_cases.files("deletion-vectors")["boundaries-32-0"][:-3],
    }[kind]

    with pytest.raises(CorruptIndexError, match="cut"):
        service.inspect("golden", IndexFileRef(content=content, name="cut"), kind, {})


def test_inspect_does_not_guess_what_bytes_without_a_sign_are(service: IndexService) -> None:
    with pytest.raises(RequestError):
        service.inspect("golden", IndexFileRef(content=b"\x00" * 7), None, {})


@pytest.mark.parametrize(
    ("data_format", "name"),
    [
        (DataFormat.PARQUET, "a Parquet data file"),
        (DataFormat.ORC, "an ORC data file"),
        (DataFormat.AVRO, "an Avro data file"),
    ],
)
def test_inspect_says_of_a_data_file_what_it_is(
    service: IndexService, tmp_path: Path, data_format: DataFormat, name: str
) -> None:
    table = pa.table({"id": [1, 2, 3]})
    content = write_data_file(tmp_path / "data", table, data_format).read_bytes()

    for kind in (None, "hash"):
        with pytest.raises(RequestError, match=f"data-1 is {name}, and no index file"):
            service.inspect("golden", IndexFileRef(content=content, name="data-1"), kind, {})
    path = f"golden.db/t/bucket-0/data-1.{data_format}"
    with pytest.raises(PathNotAllowedError, match=rf"{name} by its name.*ask for '.*\.index'"):
        service.inspect("golden", IndexFileRef(path=path), None, {})


def test_inspect_shows_a_global_index_where_writers_put_it(tmp_path: Path) -> None:
    path = "db.db/t/index/btree-global-index-0b8f6c1e-7a55-4a30-8f0e-2b4a3d1c9e77.index"
    content, _ = btree_file(
        [(number, number) for number in range(9)], parse_type("INT"), Habits(block_bytes=1)
    )
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(content)
    with closing(open_service(tmp_path)) as own:
        placed: Any = own.inspect("golden", IndexFileRef(path=path), None, {"id": "INT"}, slice(2, 4))
        sent: Any = own.inspect("golden", IndexFileRef(content=content), None, {"id": "INT"}, slice(2, 4))

    assert placed == sent
    assert (placed["kind"], placed["block_count"], placed["next_offset"]) == ("btree", 9, 4)
    assert [(block["min"], block["max"], block["row_count"]) for block in placed["blocks"]] == [
        (2, 2, 1),
        (3, 3, 1),
    ]


@pytest.mark.parametrize(
    ("types", "said"),
    [({"a": "INT", "b": "INT"}, "of one column"), ({"a": "ARRAY<INT>"}, "no global index is of type")],
)
def test_inspect_takes_one_type_for_a_global_index(
    service: IndexService, types: dict[str, str], said: str
) -> None:
    content, _ = btree_file([(1, 0)], parse_type("INT"), Habits())

    with pytest.raises(RequestError, match=said):
        service.inspect("golden", IndexFileRef(content=content), None, types)


def test_inspect_refuses_another_type_than_that_of_the_keys(service: IndexService) -> None:
    content, _ = btree_file([(1, 0)], parse_type("INT"), Habits())

    described: Any = service.inspect("golden", IndexFileRef(content=content), None, {"a": "BIGINT"})

    assert "keys of 8 bytes" in described["blocks"][0]["error"]["detail"]
