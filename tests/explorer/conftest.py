"""The explorer in a real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from selenium import webdriver

from app.main import create_app
from app.settings import Settings
from benchmarks.events import Indexed, Layout
from benchmarks.synthetic import write_table
from tests import golden_global_indexes
from tests.advice.indexed_tables import events, grown, indexed_table
from tests.api.conftest import listening
from tests.explorer.browser import DESKTOP, MissingBrowserError, Page, chromium
from tests.golden_cases import GoldenWarehouse

SAMPLES: Final = Path(__file__).parents[2] / "demo" / "warehouse"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    try:
        with chromium(tmp_path_factory.mktemp("browser")) as driver:
            yield driver
    except MissingBrowserError as missing:
        pytest.skip(str(missing))


OpenPage = Callable[[str], Page]


@pytest.fixture
def open_page(browser: webdriver.Chrome) -> Iterator[OpenPage]:
    """Make the page of a service; the browser forgets afterwards what it was shown and given."""

    def make(address: str) -> Page:
        page = Page(browser, address)
        page.size(*DESKTOP)
        page.prefer("light")
        browser.get_log("browser")  # type: ignore[no-untyped-call]
        return page

    yield make
    first, *others = browser.window_handles
    for other in others:
        browser.switch_to.window(other)
        browser.close()
    browser.switch_to.window(first)
    browser.execute_script("try { sessionStorage.clear() } catch {}")
    browser.get("about:blank")


@pytest.fixture(scope="session")
def served_story(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the sample tables, the golden ones, a table of 3,000 files, and one with large indexes."""
    story = tmp_path_factory.mktemp("story") / "warehouse"
    story.mkdir()
    write_table(story, Layout(Indexed.VALUES), 3_000)
    advised = tmp_path_factory.mktemp("advised")
    indexed_table(advised, grown([events(300)]), {"file-index.bloom-filter.columns": "city"})
    globally_indexed = golden_global_indexes.unpack(tmp_path_factory.mktemp("globally-indexed"))
    warehouses = {
        "main": SAMPLES,
        "golden": golden.root,
        "story": story,
        "advised": advised,
        "global": globally_indexed,
    }
    settings = Settings.load(
        warehouses={name: str(root) for name, root in warehouses.items()},
        allow_external=golden.allow_external(),
    )
    with listening(create_app(settings), lifespan="on") as client:
        yield str(client.base_url).rstrip("/")


@pytest.fixture
def page(open_page: OpenPage, served_story: str) -> Page:
    return open_page(served_story)
