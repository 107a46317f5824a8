"""Functions of a session that hide Spark's own: the service cannot know what a condition means by them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.spark.served_tables import Written

pytestmark = [pytest.mark.spark, pytest.mark.shared]

CONDITIONS: Final = {
    "startswith(name, 'b')": "startswith",
    "`StartsWith` /* ( */ (name, 'b')": "startswith",
    "id BETWEEN 3 AND 4": "between",
}


def test_a_condition_that_names_a_hidden_function_skips_nothing(written: Written) -> None:
    session, table = written.session, "main.reading.named"
    session.sql("CREATE TABLE reading.named (id INT, name STRING) TBLPROPERTIES ('file.format'='parquet')")
    session.sql("INSERT INTO reading.named VALUES (1, 'a'), (2, 'ab')")
    session.sql("INSERT INTO reading.named VALUES (3, 'b'), (4, 'bc')")
    asked = [{"where": where} for where in CONDITIONS]

    usual = session.read(written.url, table, *asked)
    for name in ("startswith", "between", "of_mine"):
        session.register_true(name)
    hidden = session.read(written.url, table, *asked)
    funnels = [
        session.explain(written.url, table, where=where)
        for where in (*CONDITIONS, "of_mine(name) AND id > 2")
    ]

    assert [len(rows) for rows in usual] == [2, 2, 2]
    assert [len(rows) for rows in hidden] == [4, 4, 4]
    # What the service knows nothing of keeps files, and the rest of the condition skips some.
    skips = [any(line.startswith("statistics") for line in lines) for lines in funnels]
    assert skips == [False, False, False, True]
