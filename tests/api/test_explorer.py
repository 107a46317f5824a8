"""How the explorer's files are served; `tests/explorer` tries them in a browser."""

import re
from importlib.resources import files
from typing import Final

import httpx
import pytest

from app.api.explorer import FILES, PATHS

MOST_BYTES: Final = 90_000
BROWSER: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


def content(name: str) -> str:
    return files("app.api").joinpath("explorer", name).read_text(encoding="utf-8")


def test_all_files_together_are_small() -> None:
    assert sum(len(content(name).encode()) for name in FILES) < MOST_BYTES


@pytest.mark.parametrize("path", PATHS)
def test_a_file_is_asked_for_again_and_not_sent_again(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    known = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    other = client.get(path, headers={"If-None-Match": '"other"'})

    assert (answer.status_code, known.status_code, other.status_code) == (200, 304, 200)
    assert known.content == b""
    assert answer.headers["cache-control"] == known.headers["cache-control"] == "private, no-cache"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert not re.search(r"unsafe|https?:|data:|\*", policy)


def test_nothing_is_loaded_from_other_hosts_or_written_into_the_page() -> None:
    page = content("index.html")
    scripts = [name for name in FILES if name.endswith(".js")]

    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", page)
    assert [name for name in FILES if re.search(r"https?://(?!www\.w3\.org/)", content(name))] == []
    assert [
        name for name in scripts if re.search(r"innerHTML|insertAdjacentHTML|eval\(", content(name))
    ] == []


def test_every_file_that_is_loaded_is_there_and_every_file_is_loaded() -> None:
    loaded = {
        name.removeprefix("ui/") for name in re.findall(r'(?:src|href)="(ui/[^"]+)"', content("index.html"))
    }
    for name in FILES:
        loaded |= set(re.findall(r'from "\./([^"]+)"', content(name)))

    assert loaded == set(FILES) - {"index.html"}


def test_browsers_are_led_to_it_and_programs_are_not(client: httpx.Client) -> None:
    led = client.get("/", headers={"Accept": BROWSER})
    told = [
        client.get("/", headers={"Accept": accept})
        for accept in ("*/*", "application/json", "text/*;q=0.1, */*")
    ]

    assert (led.status_code, led.headers["location"]) == (307, "/ui")
    assert [answer.json()["service"] for answer in told] == ["paimon-index"] * 3
    assert all("Accept" in re.split(", *", answer.headers["vary"]) for answer in (led, *told))
    assert client.get("/ui").headers["content-type"].startswith("text/html")
