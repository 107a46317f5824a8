"""The examples of the client's page run as they stand, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from paimon_index import Client
from tests.api.conftest import listening

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "client" / "README.md").read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    settings = Settings.load(warehouses={"main": str(ROOT / "demo" / "warehouse")}, time_zone="UTC")
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url)


def test_the_examples_of_the_page_run(demo: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(re.sub(r"http://(localhost|127.0.0.1):8080", demo, example), names)  # noqa: S102 - our own page

    printed = capsys.readouterr().out
    assert len(EXAMPLES) >= 6
    for line in ("3 10", "('sessions', 'users', 'visits')", "[  6  87 125]"):
        assert line in printed
    names["client"].close()


def test_every_method_is_named_on_the_page() -> None:
    page = (ROOT / "client" / "README.md").read_text()

    methods = {name for name in vars(Client) if name[0] != "_" and name != "close"}

    assert {name for name in methods if f"`{name}`" not in page} == set()
