"""Without tokens: callers of this machine, and no pages of other sites."""

import anyio
import httpx
import pytest

from app.api.gate.access import this_machine
from app.api.http.problems import Problem
from app.main import create_app
from app.settings import Settings
from tests.golden_cases import GoldenWarehouse

HERE = ("127.0.0.1", 50_000)
AWAY = ("192.0.2.7", 50_000)


@pytest.mark.parametrize(
    ("client", "server", "gets_in"),
    [
        (HERE, ("127.0.0.1", 8080), True),
        (("::1", 1), ("::1", 8080), True),
        (("::ffff:127.0.0.1", 1), ("::ffff:127.0.0.1", 8080), True),
        (HERE, ("testserver", 80), True),
        (AWAY, ("192.0.2.1", 8080), False),
        # A proxy of this machine asks for somebody else.
        (AWAY, ("127.0.0.1", 8080), False),
        # Somebody else says through a header that a server believes to be of this machine.
        (HERE, ("192.0.2.1", 8080), False),
        (("somewhere", 1), ("127.0.0.1", 8080), False),
        (None, ("/run/service.sock", None), False),
        (None, None, False),
    ],
)
def test_both_ends_of_the_connection_are_of_this_machine(
    client: tuple[str, int] | None, server: tuple[str, int | None] | None, gets_in: bool
) -> None:
    found = this_machine({"client": client, "server": server}, {})

    assert isinstance(found, Problem) != gets_in
    if isinstance(found, Problem):
        assert found.status == 403
        assert "PAIMON_INDEX_TOKENS_FILE" in found.detail


@pytest.mark.parametrize(
    ("host", "gets_in"),
    [
        *((b"localhost:8080", True), (b"LOCALHOST", True), (b"127.0.0.1:8080", True)),
        *((b"[::1]:8080", True), (b"paimon-index:8080", True), (b"a.localhost", True), (b"", True)),
        *((b"evil.example", False), (b"evil.example:8080", False), (b"evil.example.:8080", False)),
        *((b"127.0.0.1.evil.example", False), (b"localhost.evil.example:80", False)),
        (b"\xff.example", False),
    ],
)
def test_a_name_that_another_site_can_have_is_refused(host: bytes, gets_in: bool) -> None:
    found = this_machine({"client": HERE, "server": ("127.0.0.1", 8080)}, {b"host": host})

    assert isinstance(found, Problem) != gets_in


@pytest.mark.parametrize(
    ("auth", "client", "statuses"),
    [("on", HERE, [200, 200]), ("on", AWAY, [200, 403]), ("off", AWAY, [200, 200])],
)
def test_a_server_that_the_service_did_not_start_is_no_way_in(
    golden: GoldenWarehouse, auth: str, client: tuple[str, int], statuses: list[int]
) -> None:
    application = create_app(Settings.load(warehouses={"main": str(golden.root)}, auth=auth))

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app=application, client=client)
        async with (
            application.router.lifespan_context(application),
            httpx.AsyncClient(transport=transport, base_url="http://192.0.2.1") as asking,
        ):
            return [(await asking.get(path)).status_code for path in ("/health/live", "/v1/config")]

    if client == HERE:
        # Both ends are looked at.
        statuses = [200, 403]
    assert anyio.run(ask) == statuses


def test_an_open_service_says_so_when_it_starts(
    golden: GoldenWarehouse, caplog: pytest.LogCaptureFixture
) -> None:
    async def start(auth: str) -> None:
        application = create_app(Settings.load(warehouses={"main": str(golden.root)}, auth=auth))
        async with application.router.lifespan_context(application):
            pass

    anyio.run(start, "on")
    before = list(caplog.records)
    anyio.run(start, "off")

    assert before == []
    assert "PAIMON_INDEX_AUTH=off: everybody who reaches this service may read its warehouses" in caplog.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Content-Type": "text/plain"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://elsewhere"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://HOST"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Content-Type": "text/plain"}, 403),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://HOST.evil.example"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/v1/cache/clear", "/v1/main/databases/golden/tables/empty/plan"])
def test_pages_of_other_sites_post_nothing(
    client: httpx.Client, path: str, headers: dict[str, str], status: int
) -> None:
    host = client.base_url.netloc.decode()
    sent = {name: value.replace("HOST", host) for name, value in headers.items()}

    answer = client.post(path, content=b"{}", headers=sent)

    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


def test_a_browser_is_never_told_that_other_sites_may_ask(client: httpx.Client) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}

    answer = client.request("OPTIONS", "/v1/cache/clear", headers=asked)

    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
