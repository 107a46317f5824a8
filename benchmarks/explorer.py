"""The explorer over a table of 100,000 files: in headless Chromium on one core, the server on another."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.events import DATABASE, TABLE
from benchmarks.runner import percentile
from benchmarks.servers import server
from benchmarks.services import NO_INDEX, WAREHOUSE, prepare, warehouse_of
from benchmarks.workload import Figure, Item, Note, Suite, Target, Unit
from tests.explorer.browser import MissingBrowserError, Page, chromium

_FILES: Final = 100_000
_RUNS: Final = 20
_PLANS: Final = 5


def suites() -> Iterator[Suite]:
    """Drawing alone, and from the filter to the picture."""
    yield Suite("explorer", _figures, partial(prepare, NO_INDEX, _FILES))


def _figures(directory: Path) -> Iterator[Item]:
    with (
        tempfile.TemporaryDirectory() as profile,
        server(warehouse_of(directory, NO_INDEX, _FILES)) as port,
    ):
        try:
            with chromium(Path(profile)) as driver:
                yield from _measure(Page(driver, f"http://127.0.0.1:{port}"))
        except MissingBrowserError as missing:
            yield Note(f"The explorer is not measured: {missing}.")


def _measure(page: Page) -> Iterator[Figure]:
    page.size(1280, 800)
    page.open(f"{WAREHOUSE}/{DATABASE}/{TABLE}", filter="c1 < 300000")
    drawing = "const begun = performance.now(); explorer.picture.draw(); return performance.now() - begun"
    drawn = sorted(page.run(drawing) for _ in range(_RUNS))
    yield _figure("explorer draws its cells", drawn, Target(1_000))
    shown = []
    for number in range(_PLANS):
        page.type("#filter", f"c1 < {400_000 + number}")
        page.run("globalThis.begun = performance.now(); document.getElementById('question').requestSubmit()")
        page.until(f"return explorer.plan.question.endsWith('{number}')")
        shown.append(page.run("return explorer.shown - begun"))
    yield _figure("explorer plans with explain, and draws", sorted(shown), None)


def _figure(name: str, took: list[float], target: Target | None) -> Figure:
    median, slowest = percentile(took, 0.5), percentile(took, 0.99)
    return Figure(name, _FILES, Unit.MILLISECONDS, median, slowest, runs=len(took), target=target)
