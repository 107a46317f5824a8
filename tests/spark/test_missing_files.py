"""What was read stays what it is: no refresh changes rows, and a file that is gone is an error."""

from typing import Final

import pytest

from tests.spark.served_tables import Golden, Written
from tests.spark.sessions import SparkError, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

READERS: Final = ("auto", "rows", "data source")
COUNT: Final = "SELECT count(*) AS n FROM {}"
REFRESHES: Final = (
    *("REFRESH TABLE read", "REFRESH TABLE over_it", "REFRESH 'file:/'", "CACHE TABLE read"),
    *("REFRESH TABLE read", "REFRESH 'file:/'", "UNCACHE TABLE read", "CLEAR CACHE"),
)
EXPIRED: Final = (
    r"FileNotFoundError: .*\.parquet is not there any more: its snapshot has expired, so read the table again"
)
MISSING: Final = {"auto": r"FAILED_READ_FILE\.FILE_NOT_EXIST", "rows": EXPIRED, "data source": EXPIRED}


def view(session: SparkSession, url: str, table: str, reader: str) -> None:
    if reader == "data source":
        session.sql(
            "CREATE OR REPLACE TEMPORARY VIEW read USING paimon_index "
            f"OPTIONS (path 'main.reading.{table}', url '{url}')"
        )
    else:
        session.view(url, f"main.reading.{table}", reader=reader)


def count(session: SparkSession, name: str) -> int:
    (row,) = session.sql(COUNT.format(name))
    return int(row["n"])


@pytest.mark.connector
@pytest.mark.parametrize("reader", READERS)
def test_a_refresh_changes_nothing(written: Written, reader: str) -> None:
    session = written.session
    session.sql("CREATE TABLE reading.fresh (id BIGINT) TBLPROPERTIES ('file.format'='parquet')")
    for start in (0, 25):
        session.sql(f"INSERT INTO reading.fresh SELECT id FROM range({start}, {start + 25})")  # noqa: S608 - our own
    view(session, written.url, "fresh", reader)
    session.sql("CREATE OR REPLACE TEMPORARY VIEW over_it AS SELECT * FROM read WHERE id >= 10")

    counts = {}
    for refresh in REFRESHES:
        session.sql(refresh)
        counts[refresh] = count(session, "read"), count(session, "over_it")

    assert counts == dict.fromkeys(REFRESHES, (50, 40))


@pytest.mark.connector
@pytest.mark.parametrize("reader", READERS)
def test_files_of_an_expired_snapshot_are_an_error(written: Written, reader: str) -> None:
    session = written.session
    session.sql("CREATE TABLE reading.expired (id BIGINT) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.expired SELECT id FROM range(60)")
    view(session, written.url, "expired", reader)
    session.sql("INSERT OVERWRITE reading.expired SELECT id FROM range(7)")
    session.sql("CALL sys.expire_snapshots(table => 'reading.expired', retain_max => 1, retain_min => 1)")
    for setting in ("ignoreMissingFiles", "ignoreCorruptFiles"):
        session.sql(f"SET spark.sql.files.{setting}=true")

    for _ in range(2):
        with pytest.raises(SparkError, match=MISSING[reader]) as raised:
            count(session, "read")
        session.sql("REFRESH TABLE read")

    assert "Traceback" not in str(raised.value)
    assert "  File " not in str(raised.value)


def test_a_session_that_leaves_no_way_to_name_files_is_refused(tables: Golden) -> None:
    session = tables.session(**{"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"})

    with pytest.raises(SparkError, match=r"UnsupportedSessionError: .*ignoreMetadata to false"):
        session.read(tables.url, "main.golden.append_partitioned", {})

    assert session.read(tables.url, "main.golden.append_partitioned", {"reader": "rows"})
