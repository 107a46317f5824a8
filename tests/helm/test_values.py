"""Values: their schema, and what the page says about them."""

import base64
import json
import re
from typing import Any

import pytest
import yaml

from app.settings import Settings
from tests.golden_checks import for_each
from tests.helm.chart import CHART, MINIMAL, refusal

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())


def leaves(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Values by their dotted names; lists and empty objects are values."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        dotted = f"{above}{name}"
        if isinstance(value, dict) and value:
            found |= leaves(value, f"{dotted}.")
        else:
            found[dotted] = value
    return found


def itself_and_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def documented() -> dict[str, str]:
    """Default by dotted names, as the table of the page has them."""
    page = (CHART / "README.md").read_text()
    return dict(re.findall(r"^\| `([A-Za-z.]+)` \| `(.+?)` \| .+ \|$", page, re.MULTILINE))


def test_the_page_has_every_value_and_no_other() -> None:
    names = set(documented())

    # A row may be about a whole object of Kubernetes.
    described = {value for value in leaves(VALUES) if names & set(itself_and_parents(value))}
    existing = {name for value in leaves(VALUES) for name in itself_and_parents(value)}
    assert set(leaves(VALUES)) - described == set()
    assert names - existing == set()


@pytest.mark.helm
@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"settings": {"pagesize": 3}}, "at '/settings': additional properties 'pagesize' not allowed"),
        ({"settings": {"page_size": "abc"}}, "at '/settings/page_size'"),
        ({"extraEnv": [{"name": "PAIMON_INDEX_PAGESIZE", "value": "3"}]}, "at '/extraEnv/0/name'"),
    ],
)
def test_a_setting_that_no_pod_would_take_is_refused(values: dict[str, Any], place: str) -> None:
    assert place in refusal(MINIMAL, **values)


@pytest.mark.helm
@pytest.mark.parametrize("url", ["s3://bucket/warehouse/cache", "s3://bucket/", "s3://bucket/warehouse"])
def test_a_shared_cache_inside_of_a_warehouse_is_refused(url: str) -> None:
    shared = {"url": url, "existingSecret": "key"}

    told = refusal(MINIMAL, warehouses={"main": "s3://bucket/warehouse"}, sharedCache=shared)

    assert "warehouses.main lie inside of one another" in told


@for_each("name", documented())
def test_the_page_states_the_default(name: str) -> None:
    value: Any = VALUES
    for part in name.split("."):
        value = value[part]

    assert yaml.safe_load(documented()[name]) == value


def test_the_schema_knows_every_value() -> None:
    for name in leaves(VALUES):
        part: dict[str, Any] = SCHEMA
        for step in name.split("."):
            if "properties" not in part:
                break  # an object of Kubernetes, whose schema holds it
            assert step in part["properties"], name
            part = part["properties"][step]


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (CHART.parent.parent / "pyproject.toml").read_text()

    assert f'\nversion = "{chart["appVersion"]}"\n' in project
    assert chart["version"] == chart["appVersion"]


def test_the_icon_is_that_of_the_explorer() -> None:
    icon = yaml.safe_load((CHART / "Chart.yaml").read_text())["icon"]

    kind, _, content = icon.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert (
        base64.b64decode(content)
        == (CHART.parent.parent / "app" / "api" / "explorer" / "icon.svg").read_bytes()
    )


def test_settings_that_the_values_files_name_exist() -> None:
    for file in (CHART / "ci").glob("*.yaml"):
        named = set(yaml.safe_load(file.read_text()).get("settings", {}))
        assert named <= set(Settings.model_fields)


@pytest.mark.helm
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replicas", 3),
        ("replicaCount", "three"),
        ("replicaCount", -1),
        ("warehouses", {"config": "s3://bucket"}),
        ("warehouses", {"a/b": "s3://bucket"}),
        ("warehouses", ["s3://bucket"]),
        ("watch", ["orders"]),
        ("settings", {"PAIMON_INDEX_PAGE_SIZE": 5}),
        ("settings", {"pageSize": 5}),
        ("auth__enabled", "yes"),
        ("tokens__secret", "x"),
        ("tokens__existingSecret", "Not A Name"),
        ("cache__type", "disk"),
        ("cache__size", "ten"),
        ("cache__size", "1.5Gi"),
        ("image__digest", "latest"),
        ("image__pullPolicy", "Sometimes"),
        ("service__port", 99999),
        ("ingress__hosts", []),
        ("ingress__hashByTable__controller", "nginx"),
        ("autoscaling__maxReplicas", 0),
        ("podDisruptionBudget__maxUnavailable", 0),
        ("networkPolicy__egressPorts", ["https"]),
        ("serviceMonitor__interval", "often"),
        ("topologySpreadConstraints", [{"maxSkew": 1}]),
        ("livenessProbe__httpGet", {}),
        ("revisionHistoryLimit", -1),
        ("extraContainers", [{"image": "x"}]),
        ("commonLabels", {"app.kubernetes.io/name": "x"}),
        ("extraObjects", [{"metadata": {}}]),
    ],
)
def test_values_that_mean_nothing_are_refused(name: str, value: object) -> None:
    message = refusal(MINIMAL, **{name: value})

    assert "schema" in message
    assert f"at '/{name.split('__', maxsplit=1)[0]}" in message or f"'{name}' not allowed" in message
