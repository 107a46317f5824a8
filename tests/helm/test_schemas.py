"""Every object that the chart renders is one that Kubernetes takes."""

import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, MINIMAL, VALUES, render

pytestmark = pytest.mark.helm

# The oldest that the chart names, and the newest whose schemas are here.
NEWEST = "newest"
VERSIONS = ("1.27", NEWEST)
# Kinds that others define, whose schemas are not here.
EXTENSIONS = ("monitoring.coreos.com/", "gateway.networking.k8s.io/")
# Members that the Prometheus operator's definitions have, of those that the chart uses.
ENDPOINT = {"port", "path", "scheme", "interval", "scrapeTimeout", "tlsConfig", "authorization"}
RULE = {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
FULL = CHART / "ci" / "full.yaml"
RULES = {
    "groups": [
        {
            "name": "paimon-index",
            "rules": [
                {
                    "alert": "Down",
                    "expr": "up == 0",
                    "for": "5m",
                    "annotations": {"summary": "{{ $labels.instance }} is down: {{ $value }}"},
                }
            ],
        }
    ]
}
DASHBOARD = {"title": "paimon-index", "panels": [{"title": "by {{route}}", "legendFormat": "{{ status }}"}]}


def kubernetes() -> ModuleType:
    """Return the schemas of Kubernetes, whose import takes seconds that collecting tests need not."""
    found: ModuleType = pytest.importorskip("kubernetes_validate", reason="make chart-check installs it")
    return found


def validate(described: dict[str, Any], version: str = NEWEST) -> None:
    schemas = kubernetes()
    of = schemas.latest_version().rpartition(".")[0] if version == NEWEST else version
    schemas.validate(described, of, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_objects_are_valid(values: Path, version: str) -> None:
    for each in render(values).objects:
        if not each["apiVersion"].startswith(EXTENSIONS):
            validate(each, version)


def test_a_misspelt_member_would_be_found() -> None:
    service = render(MINIMAL).all("Service")[0]
    service["spec"]["prots"] = service["spec"].pop("ports")

    with pytest.raises(kubernetes().ValidationError):
        validate(service)


def test_the_service_monitor_is_one_of_the_prometheus_operator() -> None:
    monitor = render(FULL).one("ServiceMonitor")

    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(monitor["spec"]) <= {"selector", "namespaceSelector", "endpoints"}
    for endpoint in monitor["spec"]["endpoints"]:
        assert set(endpoint) <= ENDPOINT


@pytest.fixture
def monitored(tmp_path: Path) -> Path:
    """Return the chart with rules and a dashboard that could be mistaken for templates."""
    chart = shutil.copytree(CHART, tmp_path / "paimon-index")
    for directory in ("rules", "dashboards"):
        (chart / directory).mkdir(exist_ok=True)
    (chart / "rules" / "paimon-index.yaml").write_text(yaml.safe_dump(RULES))
    (chart / "dashboards" / "paimon-index.json").write_text(json.dumps(DASHBOARD, indent=2))
    return chart


def test_rules_are_taken_as_they_are(monitored: Path) -> None:
    rule = render(FULL, chart=monitored).one("PrometheusRule")

    assert rule["apiVersion"] == "monitoring.coreos.com/v1"
    assert rule["spec"] == RULES
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_taken_as_it_is_and_found_by_grafana(monitored: Path) -> None:
    config = render(FULL, chart=monitored).one("ConfigMap", "t-paimon-index-dashboard")

    validate(config)
    assert json.loads(config["data"]["paimon-index.json"]) == DASHBOARD
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_rules_and_dashboard_are_left_out_unless_asked_for(monitored: Path) -> None:
    objects = render(MINIMAL, chart=monitored).objects

    assert not [each for each in objects if each["kind"] == "PrometheusRule"]
    assert not [each for each in objects if each["metadata"]["name"].endswith("-dashboard")]


def test_the_charts_own_rules_are_about_this_release(tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "paimon-index")
    with (chart / "Chart.yaml").open("a") as released:
        released.write("home: https://example.com/paimon-index\n")

    (group,) = render(FULL, chart=chart).one("PrometheusRule")["spec"]["groups"]

    for rule in group["rules"]:
        metrics = re.findall(r"\b(?:paimon_index_|process_)[a-z_]+(?:\{[^}]*\})?", rule["expr"])
        assert metrics
        assert all('namespace="lake",job="t-paimon-index"' in each for each in metrics), rule["expr"]
        name = rule["alert"].lower()
        assert re.fullmatch(
            rf"https://example.com/paimon-index/blob/v[0-9.]+/docs/operations-alerts.md#{name}",
            rule["annotations"]["runbook_url"],
        )


def test_pods_are_scraped_by_one_service() -> None:
    rendered = render(FULL)
    wanted = rendered.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]

    scraped = [
        each["metadata"]["name"]
        for each in rendered.all("Service")
        if wanted.items() <= each["metadata"]["labels"].items()
    ]

    assert scraped == ["t-paimon-index"]


def test_the_charts_own_rules_have_the_members_of_the_prometheus_operator() -> None:
    for rule in render(FULL).all("PrometheusRule"):
        for group in rule["spec"]["groups"]:
            assert set(group) <= {"name", "interval", "labels", "rules"}
            for each in group["rules"]:
                assert set(each) <= RULE
