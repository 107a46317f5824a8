"""Scan tasks: data files with their deletion vectors, statistics and partitions."""

import json
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyroaring import BitMap64

from tests.golden_cases import expected
from tests.golden_checks import positions
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.rows import rows_of

PLANS = "main/namespaces/golden/tables/{}/plan"
WRITERS = Path(__file__).parents[1] / "golden" / "other_writers" / "warehouse.tar.xz"


def plan(iceberg: httpx.Client, table: str, **body: Any) -> Any:
    answer = iceberg.post(PLANS.format(table), json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("table", ["append_dv64", "pk_dv"])
def test_vectors_of_64_bits_are_blobs_of_icebergs(iceberg: httpx.Client, table: str) -> None:
    latest = next(each for each in expected(table)["versions"] if not any(each["at"].values()))
    deleted = {each["file"]: each["deletion"] for each in latest["files"] if each["visible"]}

    answer = plan(iceberg, table)

    found = {}
    for task in answer["file-scan-tasks"]:
        path = task["data-file"]["file-path"]
        for number in task.get("delete-file-references", []):
            vector = answer["delete-files"][number]
            assert (vector["file-format"], vector["referenced-data-file"]) == ("puffin", path)
            content = Path(vector["file-path"].removeprefix("file://")).read_bytes()
            assert len(content) == vector["file-size-in-bytes"]
            start, length = vector["content-offset"], vector["content-size-in-bytes"]
            found[path.rpartition("/")[2]] = rows = blob(content[start : start + length])
            assert len(rows) == vector["record-count"]
    assert found == {
        name: positions(each["positions"]) for name, each in deleted.items() if each and name in found
    }
    assert found
    assert {name for name, each in deleted.items() if each} - found.keys() == {
        name
        for name, each in deleted.items()
        if each and each["cardinality"] == next(f["row_count"] for f in latest["files"] if f["file"] == name)
    }


def blob(content: bytes) -> set[int]:
    """Return positions in a ``deletion-vector-v1`` blob, as Iceberg's specification of Puffin lays it out."""
    assert int.from_bytes(content[:4], "big") == len(content) - 8
    assert content[4:8] == bytes.fromhex("d1d33964")
    return set(BitMap64.deserialize(content[8:-4]))


def test_a_partition_is_told_by_its_values_unless_one_is_null(iceberg: httpx.Client) -> None:
    tasks = plan(iceberg, "append_part_types")["file-scan-tasks"]
    metadata = iceberg.get("main/namespaces/golden/tables/append_part_types").json()["metadata"]
    fields = next(each["fields"] for each in metadata["partition-specs"] if each["spec-id"] == 1)

    specs = Counter(task["data-file"]["spec-id"] for task in tasks)
    assert specs.keys() == {0, 1}
    assert [each["name"] for each in fields] == ["p_date", "p_flag", "p_num", "p_small"]
    for task in tasks:
        file = task["data-file"]
        assert len(file["partition"]) == (len(fields) if file["spec-id"] == 1 else 0)
        assert None not in file["partition"]


def test_counts_and_bounds_are_told_of_the_columns_that_are_asked_for(iceberg: httpx.Client) -> None:
    tasks = plan(iceberg, "append_sidecar", **{"stats-fields": ["grade", "owner", "day"]})["file-scan-tasks"]
    ids = {each["name"]: each["id"] for each in expected("append_sidecar")["schema"]["fields"]}

    for task in tasks:
        file = task["data-file"]
        rows = pq.ParquetFile(file["file-path"].removeprefix("file://")).read()
        nulls = told(file["null-value-counts"])
        assert nulls == {ids[name]: rows[name].null_count for name in ("grade", "owner", "day")}
        assert set(told(file["value-counts"]).values()) == {file["record-count"]}
        low, high = told(file["lower-bounds"]), told(file["upper-bounds"])
        assert low.keys() == high.keys() <= {ids["grade"], ids["day"]}
        values = [each for each in rows["grade"].to_pylist() if each is not None]
        if values:
            assert int.from_bytes(bytes.fromhex(low[ids["grade"]]), "little", signed=True) == min(values)
            assert int.from_bytes(bytes.fromhex(high[ids["grade"]]), "little", signed=True) == max(values)
    assert "lower-bounds" not in plan(iceberg, "append_sidecar")["file-scan-tasks"][0]["data-file"]


def told(counts: Any) -> dict[int, Any]:
    return dict(zip(counts["keys"], counts["values"], strict=True))


def test_as_few_files_are_planned_as_have_the_rows_that_are_wanted(iceberg: httpx.Client) -> None:
    whole = plan(iceberg, "append_sidecar")["file-scan-tasks"]
    some = plan(iceberg, "append_sidecar", **{"min-rows-requested": 5})["file-scan-tasks"]
    test = {"type": "gt", "term": "grade", "value": 0}
    filtered = plan(iceberg, "append_sidecar", **{"min-rows-requested": 5, "filter": test})["file-scan-tasks"]

    assert len(some) == 1
    assert len(filtered) == len(whole) > 1


@pytest.fixture
def without_ids(tmp_path: Path) -> Path:
    """Make a table of pypaimon, whose files have no field ids, without the column unknown to clients."""
    with tarfile.open(WRITERS) as archive:
        archive.extractall(tmp_path, filter="data")
    directory = tmp_path / "warehouse" / "pypaimon.db" / "parquet_files"
    shutil.rmtree(tmp_path / "warehouse" / "rust.db")
    change(directory, 1, lambda fields: [each for each in fields if each["name"] != "t9"])
    return directory


def change(directory: Path, number: int, columns: Any) -> None:
    schema = json.loads((directory / "schema" / f"schema-{number - 1}").read_text())
    schema |= {"id": number, "fields": columns(schema["fields"]), "highestFieldId": 99}
    (directory / "schema" / f"schema-{number}").write_text(json.dumps(schema))


def load(client: httpx.Client, name: str) -> Any:
    headers = {"header.X-Paimon-Accept": "timestamp-millis"}
    return RestCatalog("x", uri=f"{client.base_url}/iceberg", warehouse="main", **headers).load_table(name)


def test_files_without_ids_are_read_by_the_names_of_their_columns(
    serve_iceberg: ServeIceberg, without_ids: Path
) -> None:
    warehouse = str(without_ids.parents[1])
    stored = [pq.ParquetFile(each).read() for each in without_ids.glob("*/*.parquet")]
    with serve_iceberg(warehouses={"main": warehouse}) as client:
        rows = load(client, "pypaimon.parquet_files").scan().to_arrow()

    names = [name for name in stored[0].column_names if name != "t9" and not name.startswith("_")]
    assert set(rows.column_names) == set(names)
    shown = [name for name in names if str(rows[name].type) not in ("timestamp[us]", "timestamp[us, tz=UTC]")]
    both = [rows_of(rows.select(shown)), sum((rows_of(each.select(shown)) for each in stored), Counter())]
    assert both[0] == both[1]


def test_files_without_ids_are_refused_where_a_name_is_another_column_s(
    serve_iceberg: ServeIceberg, without_ids: Path
) -> None:
    def renewed(fields: Any) -> Any:
        first, *others = fields
        return [*others, {**first, "id": 98}]

    change(without_ids, 2, renewed)
    with serve_iceberg(warehouses={"main": str(without_ids.parents[1])}) as client:
        answer = client.post(
            "/iceberg/v1/main/namespaces/pypaimon/tables/parquet_files/plan",
            json={},
            headers={"X-Paimon-Accept": "timestamp-millis"},
        )

    assert answer.status_code == 406
    assert "has no field ids, and the name of one of its columns" in answer.json()["error"]["message"]
