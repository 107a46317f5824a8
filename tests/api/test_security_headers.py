"""What answers say to browsers and caches, and what the documentation loads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import httpx

PLAN = "/v1/main/databases/golden/tables/append_sidecar/plan"


@pytest.mark.parametrize(
    ("method", "path", "body", "kept"),
    [
        ("GET", "/health/live", None, "no-store"),
        ("GET", "/v1/config", None, "no-store"),
        ("GET", "/nowhere", None, "no-store"),
        ("POST", PLAN, b"{", "no-store"),
        ("POST", PLAN, b"{}", "private, no-cache"),
        ("GET", "/docs", None, "no-store"),
        ("GET", "/docs/swagger-ui.css", None, "private, max-age=3600"),
    ],
)
def test_every_answer_has_them(
    client: httpx.Client, method: str, path: str, body: bytes | None, kept: str
) -> None:
    headers = client.request(method, path, content=body).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers.get_list("cache-control") == [kept]


def test_so_have_streams_and_what_did_not_change(client: httpx.Client) -> None:
    stream = client.post(PLAN, json={}, headers={"Accept": "application/x-ndjson"})
    known = client.post(PLAN, json={}, headers={"If-None-Match": "*"})

    assert known.status_code == 304
    assert known.headers["cache-control"] == stream.headers["cache-control"] == "private, no-cache"


def test_the_documentation_loads_nothing_from_other_hosts(client: httpx.Client) -> None:
    page = client.get("/docs")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)

    assert "http" not in page.text
    assert {client.get(f"/{place}").status_code for place in loaded if place != "data:,"} == {200}
    assert len(loaded) == 4
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert not re.search(r"https?:|\*", page.headers["content-security-policy"])


def test_the_documentation_shows_this_api(client: httpx.Client) -> None:
    script = client.get("/docs/start.js").text

    assert 'url: "openapi.json"' in script
    assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text
    assert client.get("/openapi.json").json()["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
