"""The engine's catalog that plans through the service: rows of the engine, from files of the service."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_cases
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.golden_filters import some_of_each_kind
from tests.golden_global_indexes import unpack
from tests.jvm.sql_sessions import Query, compare, write_indexed

pytestmark = pytest.mark.jvm

# Where the engine wrote these, there is nothing on this machine.
_ELSEWHERE: Final = {
    name for name in golden_cases.tables() if golden_cases.expected(name).get("external_roots")
}
_OUTCOMES: Final = {
    *("planned", "no_filter", "not_selective", "option", "data_evolution", "other_version", "error"),
}
_PLANNED: Final = ("bundle-1.0.1", "bundle-1.1.1", "bundle-1.2.0", "bundle-1.3.1")
"""Releases before the one that the jar is compiled against."""
_TOO_OLD: Final = "spark-3.5-0.9.0"
_SOME: Final = 10
_SOME_OF_A_KIND: Final = 4
"""One in so many queries, of a kind or of all, is run by `make jvm`, and all by tests that are ``long``."""


def queries(name: str) -> list[Query]:
    def options(query: dict[str, Any]) -> dict[str, object]:
        named = {"scan.snapshot-id": query["snapshot_id"], "scan.tag-name": query["tag"]}
        return {option: value for option, value in named.items() if value is not None}

    return [
        Query(f"golden.{name}", query["predicate"], options(query))
        for query in golden_cases.expected(name)["queries"]
        if query["predicate"] is not None and query["branch"] is None
    ]


def all_queries() -> list[Query]:
    return [query for name in golden_cases.tables() if name not in _ELSEWHERE for query in queries(name)]


def outcomes_of(answers: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(outcome for answer in answers for outcome in answer.get("outcome", ("error",)))


def fewer(answers: Sequence[dict[str, Any]]) -> int:
    return sum(len(answer.get("files", ())) < len(answer.get("engine_files", ())) for answer in answers)


def different(asked: Sequence[Query], answers: Sequence[dict[str, Any]]) -> list[Any]:
    """Return queries that have other rows than the engine's, or more files."""
    return [
        (query, answer)
        for query, answer in zip(asked, answers, strict=True)
        if not answer.get("rows_equal", True)
        or not set(answer.get("files", ())) <= set(answer.get("engine_files", ()))
    ]


def test_golden_queries_of_each_kind_have_their_rows_from_no_more_files(
    golden: GoldenWarehouse, uri: str
) -> None:
    check_newest(golden, uri, some_of_each_kind(all_queries(), attrgetter("predicate"), _SOME_OF_A_KIND))


@pytest.mark.long
def test_every_golden_query_has_its_rows_from_no_more_files(golden: GoldenWarehouse, uri: str) -> None:
    check_newest(golden, uri, all_queries())


def check_newest(golden: GoldenWarehouse, uri: str, asked: Sequence[Query]) -> None:
    answers = compare(golden.root, uri, asked)

    outcomes = outcomes_of(answers)
    assert not different(asked, answers)
    assert set(outcomes) <= _OUTCOMES
    assert outcomes["planned"] > len(asked) / 3
    assert fewer(answers) > len(asked) / 10


@pytest.mark.parametrize("release", _PLANNED)
def test_some_golden_queries_have_their_rows_with_engines_before(
    golden: GoldenWarehouse, uri: str, release: str
) -> None:
    check(golden, uri, release, all_queries()[_PLANNED.index(release) :: _SOME])


@pytest.mark.long
@pytest.mark.parametrize("release", _PLANNED)
def test_every_golden_query_has_its_rows_with_engines_before(
    golden: GoldenWarehouse, uri: str, release: str
) -> None:
    check(golden, uri, release, all_queries())


def check(golden: GoldenWarehouse, uri: str, release: str, asked: Sequence[Query]) -> None:
    """They refuse tables with types, indexes or deletion vectors of later releases, with us and without."""
    answers = compare(golden.root, uri, asked, release=release)

    outcomes = outcomes_of(answers)
    read = len(asked) - outcomes["error"]
    assert not different(asked, answers)
    assert set(outcomes) <= _OUTCOMES
    assert read > len(asked) / 2
    assert outcomes["planned"] > read / 3
    assert fewer(answers) > read / 20


def test_an_engine_that_lacks_too_much_reads_on_its_own(golden: GoldenWarehouse, uri: str) -> None:
    asked = all_queries()[::_SOME]

    answers = compare(golden.root, uri, asked, release=_TOO_OLD)

    outcomes = outcomes_of(answers)
    assert not different(asked, answers)
    assert set(outcomes) == {"release", "error"}
    assert outcomes["release"] > len(asked) / 10


def test_the_engine_finds_rows_by_global_indexes_itself(tmp_path: Path) -> None:
    warehouse = unpack(tmp_path)
    column = {"name": "FIELD_REF", "fieldRef": {"name": "s"}}
    of_index = {"kind": "LEAF", "function": "EQUAL", "transform": column, "literals": ["te"]}
    with listening(create_app(Settings.load(warehouses={"main": str(warehouse)})), lifespan="on") as started:
        (answer,) = compare(
            warehouse, str(started.base_url).rstrip("/"), [Query("java.bitmap", of_index, {})]
        )

    assert answer["rows"]
    assert answer["rows_equal"]
    assert answer["outcome"] == ["data_evolution"]


@pytest.mark.parametrize("release", _PLANNED)
def test_what_an_engine_wrote_is_planned_with_it(tmp_path: Path, release: str) -> None:
    write_indexed(tmp_path, release)
    middle = {"name": "FIELD_REF", "fieldRef": {"name": "city"}}
    of_one_file = {"kind": "LEAF", "function": "EQUAL", "transform": middle, "literals": ["middle-3"]}
    with listening(create_app(Settings.load(warehouses={"main": str(tmp_path)})), lifespan="on") as started:
        (answer,) = compare(
            tmp_path,
            str(started.base_url).rstrip("/"),
            [Query("demo.indexed", of_one_file, {})],
            release=release,
        )

    assert answer["rows_equal"]
    assert answer["outcome"] == ["planned"]
    assert (answer["rows"], len(answer["files"])) == (1, 1)
