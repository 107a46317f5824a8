"""Files that came and went between two versions, held to the engine's own rows of these versions.

The engine tells the file of each row (``__paimon_file_path``), so the rows of the files that ``changes``
names are those that it reads of them, deletion vectors applied.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Final

import httpx
import pytest

from tests.spark.served_tables import Written
from tests.spark.sessions import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.connector]

COLUMNS: Final = "id, n, day"


def rows_by_file(session: SparkSession, version: int) -> dict[str, Counter[str]]:
    place = "regexp_extract(__paimon_file_path, '[^/]+$', 0)"
    found: dict[str, Counter[str]] = {}
    shown = f"{place} AS file, to_json(struct({COLUMNS})) AS row"
    for row in session.sql(f"SELECT {shown} FROM reading.steps VERSION AS OF {version}"):  # noqa: S608 - our own
        found.setdefault(row["file"], Counter())[row["row"]] += 1
    return found


def between(session: SparkSession, mode: str, before: int, after: int) -> Counter[str]:
    options = {"incremental-between": f"{before},{after}", "incremental-between-scan-mode": mode}
    for name, value in options.items():
        session.sql(f"SET `spark.paimon.{name}`=`{value}`")
    rows = session.sql(f"SELECT to_json(struct({COLUMNS})) AS row FROM reading.steps")  # noqa: S608 - our own
    for name in options:
        session.sql(f"RESET `spark.paimon.{name}`")
    return Counter(row["row"] for row in rows)


@pytest.fixture
def steps(written: Written) -> Iterator[Written]:
    yield written
    written.session.sql("DROP TABLE reading.steps")


def kinds(session: SparkSession) -> dict[int, str]:
    found = session.sql("SELECT snapshot_id AS id, commit_kind AS kind FROM reading.`steps$snapshots`")
    return {each["id"]: each["kind"] for each in found}


def added_and_removed(
    url: str, versions: dict[int, dict[str, Counter[str]]], before: int, after: int
) -> tuple[Counter[str], Counter[str]]:
    """Rows of the files that ``changes`` names, of the later and of the earlier version."""
    answer = httpx.post(
        f"{url}/v1/main/databases/reading/tables/steps/changes",
        json={"from_snapshot_id": before, "snapshot_id": after},
        timeout=60,
    )
    answer.raise_for_status()
    came, went = (
        sum((versions[version].get(file["file_name"], Counter()) for file in answer.json()[side]), Counter())
        for side, version in (("added", after), ("removed", before))
    )
    return came, went


def test_of_append_tables_they_are_those_of_incremental_between(steps: Written) -> None:
    session = steps.session
    session.sql(
        "CREATE TABLE reading.steps (id INT, n INT, day INT) PARTITIONED BY (day) TBLPROPERTIES ("
        "'file.format'='parquet', 'deletion-vectors.enabled'='true', 'compaction.min.file-num'='2')"
    )
    insert = "INSERT INTO reading.steps SELECT CAST(id AS INT), CAST(id % 3 AS INT), CAST(id % 2 AS INT)"
    session.sql(f"{insert} FROM range(0, 20)")
    session.sql(f"{insert} FROM range(20, 30)")
    session.sql(f"{insert} FROM range(25, 30)")
    session.sql("CALL paimon.sys.compact(table => 'reading.steps')")
    session.sql("DELETE FROM reading.steps WHERE id % 7 = 0")
    session.sql("INSERT OVERWRITE reading.steps PARTITION (day = 1) VALUES (7, 7)")
    session.sql(f"{insert} FROM range(40, 44)")
    kind_of = kinds(session)
    versions = {version: rows_by_file(session, version) for version in kind_of}
    whole = {version: sum(files.values(), Counter()) for version, files in versions.items()}
    compared = 0
    assert set(kind_of.values()) == {"APPEND", "COMPACT", "OVERWRITE"}
    ids = sorted(kind_of)
    for before, after in (*pairwise(ids), (ids[0], ids[3]), (ids[0], ids[-1])):
        came, went = added_and_removed(steps.url, versions, before, after)

        assert came - went == whole[after] - whole[before]
        assert went - came == whole[before] - whole[after]
        steps_between = {kind_of[each] for each in range(before + 1, after + 1)}
        if "OVERWRITE" not in steps_between:
            assert came - went == between(session, "delta", before, after)
            compared += 1
        if steps_between == {"APPEND"}:
            assert (came, went) == (between(session, "diff", before, after), Counter())
    assert compared >= 4


def test_of_tables_with_keys_their_rows_are_the_difference(steps: Written) -> None:
    session = steps.session
    session.sql(
        "CREATE TABLE reading.steps (id INT, n INT, day INT) TBLPROPERTIES ('primary-key'='id', "
        "'bucket'='1', 'file.format'='parquet', 'deletion-vectors.enabled'='true')"
    )
    session.sql("INSERT INTO reading.steps SELECT CAST(id AS INT), 0, 0 FROM range(0, 20)")
    session.sql("INSERT INTO reading.steps SELECT CAST(id AS INT), 1, 0 FROM range(15, 25)")
    session.sql("DELETE FROM reading.steps WHERE id < 3")
    # Readers see no file before it was compacted.
    ids = [version for version, kind in sorted(kinds(session).items()) if kind == "COMPACT"]
    assert len(ids) == 3
    versions = {version: rows_by_file(session, version) for version in ids}
    whole = {version: sum(files.values(), Counter()) for version, files in versions.items()}
    for before, after in combinations(ids, 2):
        came, went = added_and_removed(steps.url, versions, before, after)

        assert came - went == whole[after] - whole[before]
        assert went - came == whole[before] - whole[after]
        assert came - went == between(session, "diff", before, after)
