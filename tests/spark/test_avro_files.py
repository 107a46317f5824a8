"""Avro data files as the connector writes them: our readers give the rows that the connector reads."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from tests.spark.environment import spark_python
from tests.spark.served_tables import Written
from tests.spark.sessions import CLIENT

pytestmark = [pytest.mark.spark, pytest.mark.long]

PARTS: Final = {
    "tiny TINYINT": "CAST(id - 2 AS TINYINT)",
    "small SMALLINT": "CAST(id * -300 AS SMALLINT)",
    "big BIGINT": "id * 5000000000",
    "single FLOAT": "CAST(id / 3 AS FLOAT)",
    "double DOUBLE": "CASE id WHEN 2 THEN double('NaN') ELSE id / -7 END",
    "yes BOOLEAN": "id % 2 = 0",
    "price DECIMAL(9, 2)": "CAST(id - 3.25 AS DECIMAL(9, 2))",
    "total DECIMAL(38, 10)": "CAST(-id * 12345678901234567890.123 AS DECIMAL(38, 10))",
    "day DATE": "date_add(DATE '1969-12-30', CAST(id AS INT))",
    "moment TIMESTAMP": "timestamp_micros(id * 1000003 - 2000000)",
    "local TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1969-12-31 23:59:58.000001' + make_dt_interval(0, 0, 0, id)",
    "name STRING": "repeat('é', CAST(id AS INT))",
    "code CHAR(4)": "CASE id WHEN 1 THEN 'ab' ELSE 'abcd' END",
    "raw BINARY": "CAST(concat('x', id) AS BINARY)",
    "list ARRAY<TIMESTAMP_NTZ>": "array(TIMESTAMP_NTZ '2024-02-29 12:00:00.5', NULL)",
    "counts MAP<STRING, DECIMAL(5, 1)>": "map('a', CAST(id AS DECIMAL(5, 1)), 'b', NULL)",
    "place STRUCT<x: INT, tags: MAP<STRING, ARRAY<DATE>>>": (
        "named_struct('x', CAST(id AS INT), 'tags', map('d', array(DATE '1900-01-01')))"
    ),
    "places ARRAY<STRUCT<y: BIGINT, z: STRUCT<w: STRING>>>": (
        "array(named_struct('y', id, 'z', named_struct('w', 'v')), NULL)"
    ),
}
"""Columns of every type that Avro and Spark have, and their values in row ``id``."""

READERS: Final = ("auto", "rows")


def made(written: Written, name: str, columns: str, options: str = "") -> str:
    session, table = written.session, f"reading.{name}"
    session.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('file.format'='avro'{options})")
    return table


@pytest.mark.connector
def test_values_of_every_type(written: Written) -> None:
    table = made(written, "typed", f"id INT, {', '.join(PARTS)}")
    values = ", ".join(PARTS.values())
    nothing = ", ".join("NULL" for _ in PARTS)
    written.session.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), {values} FROM range(0, 5)")  # noqa: S608 - our own
    written.session.sql(f"INSERT INTO {table} SELECT 5, {nothing}")

    expected = written.session.exactly(f"SELECT * FROM {table}")  # noqa: S608 - our own
    ours = written.session.read(written.url, f"main.{table}", *({"reader": reader} for reader in READERS))
    loaded = written.session.load(f"main.{table}", ({"url": written.url}, None))

    assert ours == expected * 2
    assert loaded == expected
    assert len(expected[0]) == 6


@pytest.mark.connector
def test_maps_of_other_keys_than_strings(written: Written) -> None:
    table = made(written, "mapped", "id INT, m MAP<INT, STRING>, n ARRAY<MAP<DATE, DECIMAL(4, 1)>>")
    written.session.sql(
        f"INSERT INTO {table} VALUES (1, map(7, 'a', -7, NULL), array(map(DATE '2024-01-01', 2.5))), "  # noqa: S608 - our own
        "(2, map(), NULL), (3, NULL, array(NULL))"
    )

    (ours,) = written.session.read(written.url, f"main.{table}", {})
    (theirs,) = written.session.exactly(f"SELECT * FROM {table}")  # noqa: S608 - our own

    # The connector gives the entries of a map in another order.
    assert list(map(json.loads, ours)) == list(map(json.loads, theirs))
    assert len(ours) == 3


@pytest.mark.connector
@pytest.mark.parametrize("codec", ["null", "snappy", "deflate", "bzip2"])
def test_codecs(written: Written, codec: str) -> None:
    table = made(written, codec, "id INT, b STRING", f", 'file.compression'='{codec}'")
    written.session.sql(f"INSERT INTO {table} SELECT id, concat('b', id % 10) FROM range(0, 3000)")  # noqa: S608 - our own

    ours = written.session.read(written.url, f"main.{table}", {"where": "b = 'b3'"})

    assert ours == written.session.exactly(f"SELECT * FROM {table} WHERE b = 'b3'")  # noqa: S608 - our own
    assert len(ours[0]) == 300


ROWS: Final = [{"id": number, "name": f"n{number}"} for number in range(5)]
RECORD: Final = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None}],
}


def worker_reads(path: Path, hidden: str = "nothing") -> list[Any]:
    """Return what a worker reads of a file: rows, or the error."""
    done = subprocess.run(  # noqa: S603 - our own program
        [str(spark_python()), "-c", PROGRAM, str(path), hidden],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
    )
    found: list[Any] = json.loads(done.stdout)
    return found


PROGRAM: Final = """
import json, sys
import pyarrow as pa
from paimon_index.spark.worker import read_file

sys.modules[sys.argv[2]] = None
schema = pa.schema([("name", pa.string()), ("id", pa.int64()), ("added", pa.date32())])
try:
    batches = list(read_file((f"file:{sys.argv[1]}", "avro", None, False), schema, {}))
    print(json.dumps([row for batch in batches for row in batch.to_pylist()]))
except (ImportError, ValueError) as error:
    print(json.dumps([str(error)]))
"""


@pytest.mark.parametrize("is_union", [False, True], ids=["records", "records or null"])
def test_rows_of_early_releases_are_unions_with_null(tmp_path: Path, *, is_union: bool) -> None:
    path = tmp_path / "data.avro"
    with path.open("wb") as file:
        fastavro.writer(file, ["null", RECORD] if is_union else RECORD, ROWS, codec="deflate")

    assert worker_reads(path) == [{**row, "added": None} for row in ROWS]


def test_a_worker_without_fastavro_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "data.avro"
    with path.open("wb") as file:
        fastavro.writer(file, RECORD, ROWS)

    (said,) = worker_reads(path, hidden="fastavro")

    assert "pip install 'fastavro>=1.12'" in said


@pytest.mark.parametrize("place", [2, -10, -1])
def test_a_damaged_file_is_an_error(tmp_path: Path, place: int) -> None:
    path = tmp_path / "data.avro"
    with path.open("wb") as file:
        fastavro.writer(file, RECORD, ROWS, sync_marker=bytes(range(16)))
    content = bytearray(path.read_bytes())
    if place == -1:
        del content[-1]
    else:
        content[place] ^= 0x55
    path.write_bytes(content)

    (said,) = worker_reads(path)

    assert isinstance(said, str)


@pytest.mark.connector
def test_columns_that_changed_and_rows_that_were_deleted(written: Written) -> None:
    session = written.session
    table = made(
        written, "changed", "id INT, a INT, b STRING, c DECIMAL(5, 1)", ", 'deletion-vectors.enabled'='true'"
    )
    values = "CAST(id AS INT), CAST(id AS INT), concat('b', id), CAST(id AS DECIMAL(5, 1))"
    session.sql(f"INSERT INTO {table} SELECT {values} FROM range(0, 5000)")  # noqa: S608 - our own
    session.sql(f"DELETE FROM {table} WHERE id % 7 = 3")  # noqa: S608 - our own
    session.sql(f"ALTER TABLE {table} DROP COLUMN b")
    session.sql(f"ALTER TABLE {table} RENAME COLUMN a TO renamed")
    session.sql(f"ALTER TABLE {table} ALTER COLUMN renamed TYPE BIGINT")
    session.sql(f"ALTER TABLE {table} ALTER COLUMN c TYPE DECIMAL(9, 2)")
    session.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
    session.sql(f"INSERT INTO {table} VALUES (6000, 6000000000, 123456.78, 1)")  # noqa: S608 - our own
    wheres = [None, "b IS NULL AND renamed BETWEEN 10 AND 20", "b = 1", "c = 5", "id = 4999"]

    asked = [{"where": where, "reader": reader} for where in wheres for reader in READERS]
    ours = session.read(written.url, f"main.{table}", *asked)
    (counted,) = session.read(written.url, f"main.{table}", {"columns": ["b"]})

    expected = session.exactly(*(f"SELECT * FROM {table} WHERE {where or 'TRUE'}" for where in wheres))  # noqa: S608 - our own
    assert ours == [rows for rows in expected for _ in READERS]
    assert len(counted) == len(expected[0]) == 5001 - 714
    lines = session.explain(written.url, f"main.{table}")
    assert lines[-1] == "files read as avro by positions, in Python: 3"


@pytest.mark.connector
def test_versions_of_a_key_are_merged(written: Written) -> None:
    session = written.session
    table = made(
        written, "keyed", "k INT NOT NULL, v STRING", ", 'primary-key'='k', 'bucket'='1', 'write-only'='true'"
    )
    session.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")  # noqa: S608 - our own
    session.sql(f"INSERT INTO {table} VALUES (2, 'new'), (4, 'd')")  # noqa: S608 - our own
    session.sql(f"DELETE FROM {table} WHERE k = 3")  # noqa: S608 - our own
    wheres = ["TRUE", "v = 'b'", "k >= 2"]

    ours = session.read(written.url, f"main.{table}", *({"where": where} for where in wheres))

    assert ours == session.exactly(*(f"SELECT * FROM {table} WHERE {where}" for where in wheres))  # noqa: S608 - our own
    assert [len(rows) for rows in ours] == [3, 0, 2]
