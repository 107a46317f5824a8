"""Dashboard, alert rules and docs speak of the metrics that there are, and of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import promql_parser
import pytest
import yaml

from tests.telemetry.scrapes import Scrape

if TYPE_CHECKING:
    import httpx

ROOT = Path(__file__).parent.parent.parent
CHART = ROOT / "helm" / "paimon-index"
RULES = yaml.safe_load((CHART / "rules" / "paimon-index.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((CHART / "dashboards" / "paimon-index.json").read_text())

_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def queries() -> Iterator[str]:
    """Every query of the dashboard and the rules; Grafana's variables replaced by what they stand for."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")
    for rule in ALERTS.values():
        yield rule["expr"]


def selected(query: str) -> dict[str, set[str]]:
    """The labels that a query asks of each metric it names; fails if the query is none."""
    found: dict[str, set[str]] = {}

    def visit(expression: object) -> None:
        if isinstance(expression, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in expression.matchers.matchers}
            found.setdefault(str(expression.name), set()).update(labels)

    pending: list[object] = [promql_parser.parse(query)]
    while pending:
        expression = pending.pop()
        visit(expression)
        for member in ("lhs", "rhs", "expr", "vector_selector", "args"):
            inner = getattr(expression, member, None)
            pending += inner if isinstance(inner, list) else [inner] if inner is not None else []
    return found


@pytest.fixture(scope="module")
def series(client: httpx.Client) -> set[str]:
    """The names of all series that a service can have."""
    families = Scrape.of(client).families.values()
    # The parser takes "_info" for part of a name.
    return {family.name + suffix for family in families for suffix in _SUFFIXES[family.type]}


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_queries_ask_for_metrics_that_there_are(query: str, series: set[str]) -> None:
    assert set(selected(query)) <= series
    assert selected(query)


def test_every_metric_is_described_and_shown(client: httpx.Client, series: set[str]) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(paimon_index_\w+)` \| (\w+) \|", page, re.MULTILINE)
    families = Scrape.of(client).families.values()
    there = {(f"{each.name}_total" if each.type == "counter" else each.name, each.type) for each in families}
    asked = {name for query in queries() for name in selected(query)}

    assert set(rows) == there
    assert {name for name, kind in there if not asked & {name, f"{name}_bucket", f"{name}_sum"}} == set()
    assert asked <= series


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_a_runbook(name: str) -> None:
    page = (ROOT / "docs" / "operations-alerts.md").read_text()
    annotations = ALERTS[name]["annotations"]

    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["runbook_url"] == f"docs/operations-alerts.md#{name.lower()}"
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert "\n1. " in section
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning", "info"}


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
