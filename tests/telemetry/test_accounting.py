from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.observation import Phase, during, observed_by
from app.server.processes import Processes
from app.telemetry.middleware import Accounting
from app.telemetry.service import Telemetry
from tests.telemetry.scrapes import Scrape

START = {"type": "http.response.start", "status": 200, "headers": []}
PIECE = {"type": "http.response.body", "body": b"piece", "more_body": True}
END = {"type": "http.response.body", "body": b"", "more_body": False}


def telemetry(*, token_names: bool = False) -> Telemetry:
    return Telemetry(Processes(None), dict, concurrency=7, token_names=token_names)


def scrape(counting: Telemetry) -> Scrape:
    return Scrape(counting.exposition("")[0].decode())


def ask(
    counting: Telemetry,
    messages: Sequence[dict[str, Any]],
    *,
    error: BaseException | None = None,
    state: Mapping[str, str] | None = None,
) -> None:
    """One request, which is answered with some messages before an error is raised."""

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        scope["state"].update(state or {})
        for message in messages:
            await send(message)
        if error is not None:
            raise error

    async def nothing(*_: object) -> Any:
        return None

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    asyncio.run(Accounting(application, counting)(scope, nothing, nothing))


def test_an_answer_that_lacks_its_end_is_broken_off() -> None:
    counting = telemetry()
    ask(counting, [START, PIECE, END])
    with pytest.raises(OSError, match="gone"):
        ask(counting, [START, PIECE], error=OSError("gone"))

    scraped = scrape(counting)

    assert scraped.value("requests_total", route="unrouted", status="200") == 2
    assert scraped.value("answers_broken_off_total", route="unrouted") == 1
    assert scraped.total("requests_in_flight") == 0


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
def test_a_request_without_an_answer_has_a_status_of_its_own(error: BaseException | None) -> None:
    counting = telemetry()
    if error is None:
        ask(counting, [])
    else:
        with pytest.raises(asyncio.CancelledError):
            ask(counting, [], error=error)

    scraped = scrape(counting)

    assert scraped.value("requests_total", route="unrouted", status="499") == 1
    assert scraped.total("answers_broken_off_total") == 0


def test_names_of_tokens_are_told_where_they_are_wanted() -> None:
    named, unnamed = telemetry(token_names=True), telemetry()
    for counting in (named, unnamed):
        ask(counting, [START, END], state={"token_name": "etl"})
        ask(counting, [START, END])

    labels = {"route": "unrouted", "status": "200"}
    assert scrape(named).value("requests_total", **labels | {"token": "etl"}) == 1
    assert scrape(named).value("requests_total", **labels | {"token": ""}) == 1
    assert scrape(unnamed).value("requests_total", **labels) == 2


def test_each_second_counts_for_the_innermost_phase() -> None:
    counting = telemetry()
    account = counting.begin({"type": "http", "method": "GET", "headers": [], "state": {}})
    with observed_by(account), during(Phase.EVALUATE):
        with during(Phase.LOAD), during(Phase.LOAD):
            pass
        account.spent(Phase.QUEUE, 3.0)
    spent = dict(account.phases)
    counting.end(account)

    assert set(spent) == {Phase.EVALUATE, Phase.LOAD, Phase.QUEUE}
    assert spent[Phase.EVALUATE] + spent[Phase.LOAD] <= account.close()
    assert scrape(counting).value("phase_seconds_sum", route="unrouted", phase="queue") >= 3.0


def test_memory_is_told_with_its_limit_where_there_is_one() -> None:
    limited = Telemetry(Processes(None), dict, concurrency=1, memory_limit=lambda: 1 << 30)

    assert scrape(limited).value("memory_limit_bytes") == 1 << 30
    assert scrape(limited).value("memory_resident_bytes") > 1 << 20
    assert not scrape(telemetry()).families["paimon_index_memory_limit_bytes"].samples
