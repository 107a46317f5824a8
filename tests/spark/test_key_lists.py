"""Keys of a join's small side beside the condition: rows are those of the connector's semi join."""

from typing import Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases
from tests.api.conftest import listening
from tests.client.scripted import nowhere
from tests.golden_cases import GoldenWarehouse
from tests.spark.served_tables import TIMED, Golden, Written
from tests.spark.sessions import SparkError

pytestmark = [pytest.mark.spark, pytest.mark.long]

READERS: Final = ("auto", "rows")
OTHERWISE: Final = ("TIME(", "TIMESTAMP(9)", "CHAR(")
"""Types that Spark has not, rounds, or pads."""


def comparable(table: str) -> list[str]:
    """Columns that can be compared with keys."""
    fields = golden_cases.expected(table)["schema"]["fields"]
    return [
        field["name"]
        for field in fields
        if isinstance(field["type"], str)
        and not field["type"].startswith(OTHERWISE)
        and not ("TIMESTAMP" in field["type"] and "(9)" in field["type"])
    ]


@pytest.mark.connector
@pytest.mark.parametrize("table", [*TIMED, "append_sidecar", "pk_dv", "dyn_bucket"])
def test_rows_are_those_that_have_a_key(tables: Golden, table: str) -> None:
    session, name = tables.session("Asia/Kolkata"), f"main.golden.{table}"
    columns = comparable(table)
    keys = {
        column: f"SELECT DISTINCT `{column}` FROM {name} ORDER BY hash(`{column}`) LIMIT 4"  # noqa: S608 - our own
        for column in columns
    }
    asked = [{"in_lists": {column: text}, "columns": columns} for column, text in keys.items()]
    shown = ", ".join(f"`{column}`" for column in columns)
    statements = [
        f"SELECT {shown} FROM {name} WHERE `{column}` IN ({text})"  # noqa: S608 - our own
        for column, text in keys.items()
    ]

    expected = session.exactly(*statements)
    for reader in READERS:
        ours = session.read(tables.url, name, *({**each, "reader": reader} for each in asked))
        assert dict(zip(columns, ours, strict=True)) == dict(zip(columns, expected, strict=True))
    assert any(expected)


@pytest.mark.connector
def test_keys_and_condition_are_both_met(tables: Golden) -> None:
    name = "main.golden.append_sidecar"
    session = tables.session()
    where = "rank_no > 100"

    ours = session.read(
        tables.url,
        name,
        {"where": where, "in_lists": {"RANK_NO": [99, 100, 101, 4956, None, 101, 1 << 40]}},
        {"where": where, "in_lists": {"rank_no": []}},
        {"in_lists": {"rank_no": [101, 4956], "grade": f"SELECT grade FROM {name} WHERE rank_no > 4000"}},  # noqa: S608 - our own
    )

    keyed = f"SELECT * FROM {name} WHERE rank_no IN"  # noqa: S608 - our own
    assert ours == session.exactly(f"{keyed} (101, 4956)", f"{keyed} (NULL)", f"{keyed} (4956)")
    assert [len(rows) > 0 for rows in ours] == [True, False, True]


def test_files_without_a_key_are_skipped_by_their_indexes(tables: Golden) -> None:
    session = tables.session()

    lines = session.explain(
        tables.url,
        "main.golden.append_dv32",
        in_lists={"session_no": [f"customer-reference-{number}" for number in range(9)]},
    )

    assert lines[0].endswith("all rows, with keys of session_no")
    assert any(line.startswith("file_index") for line in lines)


@pytest.mark.connector
def test_more_keys_than_the_service_takes_are_only_joined(tables: Golden, golden: GoldenWarehouse) -> None:
    session, name = tables.session(), "main.golden.append_sidecar"
    keys = f"SELECT rank_no FROM {name} WHERE rank_no % 7 = 0"  # noqa: S608 - our own
    settings = Settings.load(warehouses={"main": str(golden.root)}, filter_literals=3)
    with listening(create_app(settings), lifespan="on") as started:
        url = str(started.base_url)
        ours = session.read(
            url,
            name,
            {"in_lists": {"rank_no": keys}},
            {"in_lists": {"rank_no": [7, 14, 21, 28]}},
            {"in_lists": {"rank_no": [7, 14, 21]}},
        )
        (long, short) = (
            session.explain(url, name, in_lists={"rank_no": list(range(-count, 0))}) for count in (4, 3)
        )

    keyed = f"SELECT * FROM {name} WHERE rank_no IN"  # noqa: S608 - our own
    assert ours == session.exactly(f"{keyed} ({keys})", f"{keyed} (7, 14, 21, 28)", f"{keyed} (7, 14, 21)")
    assert not any(line.startswith("statistics") for line in long)
    assert any(line.startswith("statistics") for line in short)


@pytest.mark.connector
def test_numbers_that_are_equal_but_not_the_same(written: Written) -> None:
    session = written.session
    session.sql(
        "CREATE TABLE reading.floats (id INT, d DOUBLE, f FLOAT, n DECIMAL(10, 2)) TBLPROPERTIES ("
        "'file-index.bloom-filter.columns'='d,f', 'file-index.in-manifest-threshold'='1 mb')"
    )
    for values in ("(1, -0.0D, -0.0F, 1)", "(2, 0.0D, 0.0F, 1.5)", "(3, double('NaN'), float('NaN'), NULL)"):
        session.sql(f"INSERT INTO reading.floats VALUES {values}")  # noqa: S608 - our own
    wheres = {"d": "SELECT 0.0D UNION ALL SELECT double('NaN')", "f": "SELECT float('-0.0')", "n": "SELECT 1"}

    ours = session.read(
        written.url, "main.reading.floats", *({"in_lists": {name: keys}} for name, keys in wheres.items())
    )

    assert ours == session.exactly(
        *(f"SELECT * FROM reading.floats WHERE {name} IN ({keys})" for name, keys in wheres.items())  # noqa: S608 - our own
    )
    assert [len(rows) for rows in ours] == [3, 2, 1]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"c_char": ["x"]}, "ValueError: column c_char is CHAR.* compare it in where"),
        (
            {"c_int": "SELECT double(1)"},
            "ValueError: keys of c_int are double, and the column is int: cast them",
        ),
        ({"c_int": "SELECT 1, 2"}, "ValueError: keys of c_int are a DataFrame of 2 columns: select one"),
        ({"c_int": [1, "x"]}, "ValueError: keys of c_int are not values of one type"),
        ({"nothing": [1]}, "ServiceError: 422 filter"),
    ],
)
def test_keys_that_cannot_be_compared_are_refused(
    tables: Golden, keys: dict[str, object], message: str
) -> None:
    with pytest.raises(SparkError, match=message):
        tables.session().read(
            tables.url, "main.golden.all_types", {"in_lists": keys, "columns": comparable("all_types")}
        )


@pytest.mark.connector
def test_the_connector_stands_in_for_a_service_that_is_down(tables: Golden) -> None:
    session, name = tables.session(), "main.golden.append_sidecar"

    (ours,) = session.read(nowhere(), name, {"in_lists": {"rank_no": [7, 14]}, "on_unavailable": "scan"})

    assert [ours] == session.exactly(f"SELECT * FROM {name} WHERE rank_no IN (7, 14)")  # noqa: S608 - our own
