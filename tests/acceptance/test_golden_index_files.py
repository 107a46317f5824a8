"""Every golden index file over HTTP: the answer is that of the library, which is held to the engine's."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyroaring import BitMap

from app.file_index.answers.result import SKIP, Result, Rows
from app.file_index.evaluation import evaluate
from app.file_index.top_n import top_n
from app.predicates.binding.binding import bind
from app.predicates.model import ALWAYS_TRUE
from app.predicates.sql.reader import read_sql
from tests import golden_file_index, golden_unit
from tests.golden_cases import together

if TYPE_CHECKING:
    import httpx

_LARGE_ROWS = 20_000


def ask(client: httpx.Client, golden: golden_file_index.GoldenIndex, question: Mapping[str, Any]) -> Any:
    """What the service says of one golden file."""
    body = {
        "schema": list(golden.document["columns"]),
        "files": [{"content": base64.b64encode(golden.content).decode(), "name": "golden"}],
        "row_count": golden.row_count,
        **question,
    }
    response = client.post("/v1/main/index-files/evaluate", json=body)
    assert response.status_code == 200, response.text
    (answer,) = response.json()["results"]
    return answer


def assert_same(answer: Mapping[str, Any], result: Result, row_count: int) -> None:
    """Asserts that an answer of the service is a result of the library."""
    assert "error" not in answer, answer
    assert answer["decision"] == ("skip" if result is SKIP else "keep")
    if isinstance(result, Rows):
        assert BitMap.deserialize(base64.b64decode(answer["selection"])) == result.positions
        assert answer["selected_rows"] == len(result.positions) <= row_count


@together("kind", "name", golden_file_index.by_kind())
def test_filters(client: httpx.Client, name: str) -> None:
    golden = golden_file_index.load(name)
    index = golden.read()
    # Large files take most of the time and test nothing of HTTP that the small ones do not.
    checks = golden.document["checks"][: 5 if golden.row_count > _LARGE_ROWS else None]
    for recorded in checks:
        forms = [(golden_file_index.expand(recorded["predicate"]), golden.bind(recorded["predicate"]))]
        if recorded["sql"] is not None:
            forms.append((recorded["sql"], bind(read_sql(recorded["sql"]), golden.fields)))
        for written, predicate in forms:
            result = evaluate(predicate, index, row_count=golden.row_count)
            assert_same(ask(client, golden, {"filter": written}), result, golden.row_count)


@pytest.mark.parametrize("name", sorted(golden_unit.documents("topn")))
def test_first_rows(client: httpx.Client, name: str) -> None:
    golden = golden_file_index.load(name)
    index = golden.read()
    for request in golden_unit.document("topn", name)["requests"][:20]:
        first = request["order"][0]
        predicate = ALWAYS_TRUE if request["predicate"] is None else golden.bind(request["predicate"])
        result = top_n(
            index,
            golden.field(first["column"]),
            descending=first["direction"] == "DESC",
            nulls_first=first["nulls"] == "NULLS FIRST",
            limit=request["limit"],
            strict=len(request["order"]) == 1,
            selection=evaluate(predicate, index, row_count=golden.row_count),
        )
        order_by = [
            {
                "column": key["column"],
                "direction": key["direction"].lower(),
                "nulls": key["nulls"].removeprefix("NULLS ").lower(),
            }
            for key in request["order"]
        ]
        question: dict[str, Any] = {"top_n": {"order_by": order_by, "limit": request["limit"]}}
        if request["predicate"] is not None:
            question["filter"] = golden_file_index.expand(request["predicate"])
        if request["limit"] >= 0:
            assert_same(ask(client, golden, question), result, golden.row_count)
