"""A request is one class, whoever asks: HTTP, the library, a command line, a job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from app.aggregates.answers import AggregateRequest
from app.api.questions.bodies import PrunedSnapshotBody
from app.errors import FilterError, RequestError
from app.planning.request.requests import (
    DeletionsRequest,
    IndexFileRef,
    LookupRequest,
    PlanRequest,
    SelectionForm,
)
from app.predicates.text import read_text


def test_what_a_caller_of_http_sends_is_what_the_library_is_given() -> None:
    sent = json.loads('{"filter": "a = 1", "selection": "ranges", "files": ["x"], "snapshot_id": 3}')

    given = PlanRequest(filter="a = 1", selection=SelectionForm.RANGES, files=("x",), snapshot_id=3)

    assert PlanRequest.read(sent) == given
    assert given.selection is SelectionForm.RANGES
    assert given.selector.snapshot_id == 3


@pytest.mark.parametrize(
    "members",
    [{"limit": 1.0}, {"limit": "1"}, {"limit": -1}, {"fliter": "a = 1"}, {"snapshot_id": 1, "tag": "t"}],
)
def test_what_http_refuses_the_library_refuses(members: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        PlanRequest.read(members)
    with pytest.raises(ValidationError):
        PlanRequest(**members)


def test_a_filter_that_was_read_already_is_taken_and_told_to_nobody() -> None:
    predicate = read_text("a = 1")

    assert PlanRequest(filter=predicate).filter is predicate
    described, _null = PlanRequest.model_json_schema()["properties"]["filter"]["anyOf"]
    assert {each["type"] for each in described["anyOf"]} == {"string", "object"}


def test_forms_of_a_member_are_only_those_that_its_answer_has() -> None:
    with pytest.raises(ValidationError, match="'positions', 'ranges', 'bitmap' or 'count'"):
        DeletionsRequest(encoding=SelectionForm.NONE)


def test_content_is_bytes_in_python_and_base64_in_json() -> None:
    assert IndexFileRef(content=b"\x00\x01") == IndexFileRef.read({"content": "AAE="})
    with pytest.raises(RequestError, match="not base64"):
        IndexFileRef.read({"content": "\x00"})


def test_what_is_wrong_in_form_is_told_before_what_is_not_computed() -> None:
    with pytest.raises(RequestError, match=r"^filter: expected"):
        AggregateRequest.read({"filter": 5, "aggregates": [{"function": "avg"}]})
    with pytest.raises(FilterError, match="'avg' is not computed here"):
        AggregateRequest.read({"aggregates": [{"function": "avg"}]})


def test_long_lists_are_handed_on_as_they_are() -> None:
    body = PrunedSnapshotBody(in_lists={"id": list(range(100_000))})

    planned = PlanRequest.like(body, selection=SelectionForm.NONE)

    assert planned.in_lists is body.in_lists
    assert "most_share" not in dict(planned)


def test_keys_that_are_no_objects_are_refused_once_for_all() -> None:
    with pytest.raises(RequestError, match=r"^keys.0: expected an object, found 0"):
        LookupRequest.read({"keys": list(range(100_000))})
