"""The engine's catalog that plans through the service: rows of the engine, from files of the service."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_tables
from tests.api.conftest import listening
from tests.golden_tables import GoldenWarehouse
from tests.jvm.sql_sessions import Query, compare

pytestmark = pytest.mark.jvm

# Where the engine wrote these, there is nothing on this machine.
_ELSEWHERE = {name for name in golden_tables.tables() if golden_tables.expected(name).get("external_roots")}


@pytest.fixture(scope="module")
def uri(golden: GoldenWarehouse) -> Iterator[str]:
    settings = Settings.load(warehouses={"main": str(golden.root)})
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url).rstrip("/")


def queries(name: str) -> list[Query]:
    def options(query: dict[str, Any]) -> dict[str, object]:
        named = {"scan.snapshot-id": query["snapshot_id"], "scan.tag-name": query["tag"]}
        return {option: value for option, value in named.items() if value is not None}

    return [
        Query(name, query["predicate"], options(query))
        for query in golden_tables.expected(name)["queries"]
        # The engine writes no predicate about bytes as JSON.
        if query["predicate"] is not None
        and query["branch"] is None
        and not {"BINARY", "VARBINARY", "BYTES"} & set(re.findall("[A-Z]+", str(query["predicate"])))
    ]


def test_every_golden_query_has_its_rows_from_no_more_files(golden: GoldenWarehouse, uri: str) -> None:
    asked = [query for name in golden_tables.tables() if name not in _ELSEWHERE for query in queries(name)]

    answers = compare(golden.root, uri, asked)

    outcomes = Counter(outcome for answer in answers for outcome in answer.get("outcome", ("error",)))
    different = [
        (query, answer)
        for query, answer in zip(asked, answers, strict=True)
        if not answer.get("rows_equal", True)
        or not set(answer.get("files", ())) <= set(answer.get("engine_files", ()))
    ]
    fewer = sum(len(answer.get("files", ())) < len(answer.get("engine_files", ())) for answer in answers)
    assert not different
    assert set(outcomes) <= {"planned", "no_filter", "not_selective", "option", "other_version", "error"}
    assert outcomes["planned"] > len(asked) / 3
    assert fewer > len(asked) / 10
