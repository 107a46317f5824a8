"""Options of commands are members of requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from app.cli.asking import Invocation, asks
from app.errors import RequestError
from app.planning.request.members import Request
from app.planning.request.requests import LookupRequest, PlanRequest


def members(request: type[Request], *options: str, offered: tuple[str, ...], **how: Any) -> dict[str, Any]:
    """Return the members of a request that options stand for, of a command that offers some."""

    def answer(invocation: Invocation[Request]) -> object:
        return dict(invocation.members)

    program = typer.Typer()
    program.command()(asks(request, *offered, **how)(answer))
    done = CliRunner().invoke(program, ["demo.sessions", "--json", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_member_has_the_type_and_the_default_of_the_request() -> None:
    offered = ("filter", "limit", "explain", "selection")

    found = members(PlanRequest, "--limit", "3", "--explain", offered=offered, selection="ranges")

    assert found == {"filter": None, "limit": 3, "explain": True, "selection": "ranges"}


@pytest.mark.parametrize(
    ("text", "read"), [("a = 1", "a = 1"), (' {"kind": "LEAF"}', {"kind": "LEAF"})], ids=["sql", "json"]
)
def test_a_filter_is_sql_or_json(text: str, read: object) -> None:
    assert members(PlanRequest, "--filter", text, offered=("filter",))["filter"] == read


def test_objects_are_written_as_json_and_lists_by_repeating() -> None:
    options = ("--key", '{"id": 1}', "--key", '{"id": 2}', "--partition", '{"dt": "2025-08-01"}')

    found = members(LookupRequest, *options, offered=("keys", "partition"), flags={"keys": "--key"})

    assert (found["keys"], found["partition"]) == ([{"id": 1}, {"id": 2}], {"dt": "2025-08-01"})


def test_what_is_no_object_is_refused_with_an_example_of_the_request() -> None:
    with pytest.raises(RequestError, match=r'"id": 1\}. is expected, not 5'):
        members(LookupRequest, "--key", "5", offered=("keys",), flags={"keys": "--key"})
