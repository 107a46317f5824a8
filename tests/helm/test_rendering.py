"""What the chart makes of its values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from app.settings import Settings
from tests.helm.chart import CHART, MINIMAL, VALUES, Rendered, helm, refusal, render

pytestmark = pytest.mark.helm

FULL = CHART / "ci" / "full.yaml"
OPEN = CHART / "ci" / "open.yaml"
PODS = {
    "app.kubernetes.io/name": "paimon-index",
    "app.kubernetes.io/instance": "t",
    "app.kubernetes.io/component": "service",
}


class TestWhoMayAsk:
    def test_nothing_is_rendered_before_tokens_or_their_absence_are_chosen(self) -> None:
        message = refusal(warehouses={"main": "s3://bucket"})

        assert "tokens.existingSecret" in message
        assert "auth.enabled=false" in message

    def test_tokens_are_read_from_the_secret_as_a_directory_that_follows_its_changes(self) -> None:
        rendered = render(MINIMAL, tokens__key="prod.yaml")

        tokens_file = rendered.environment["PAIMON_INDEX_TOKENS_FILE"]
        volume = rendered.volumes[rendered.mounts[tokens_file.rpartition("/")[0]]]["secret"]
        assert volume["secretName"] == "paimon-index-tokens"
        assert volume["items"] == [{"key": "prod.yaml", "path": tokens_file.rpartition("/")[2]}]
        assert "PAIMON_INDEX_AUTH" not in rendered.environment
        assert not any("subPath" in each for each in rendered.container["volumeMounts"])

    def test_without_tokens_the_service_is_told_that_everybody_may_ask(self) -> None:
        rendered = render(OPEN)

        assert rendered.environment["PAIMON_INDEX_AUTH"] == "off"
        assert "PAIMON_INDEX_TOKENS_FILE" not in rendered.environment

    def test_tokens_and_their_absence_contradict_each_other(self) -> None:
        assert "unset one" in refusal(MINIMAL, auth__enabled=False)

    @pytest.mark.parametrize(("values", "status"), [(MINIMAL, "401"), (OPEN, "200")])
    def test_helm_test_expects_what_a_caller_without_token_gets(self, values: Path, status: str) -> None:
        (container,) = render(values).one("Pod")["spec"]["containers"]

        assert {"name": "STATUS_WITHOUT_TOKEN", "value": status} in container["env"]


class TestSettings:
    def test_warehouses_and_watched_tables_are_the_json_that_the_service_reads(self) -> None:
        environment = render(FULL).environment

        assert json.loads(environment["PAIMON_INDEX_WAREHOUSES"]) == {
            "main": "s3://bucket/warehouse",
            "archive.v1": "gs://archive/warehouse",
        }
        assert json.loads(environment["PAIMON_INDEX_WATCH"]) == [
            "main.sales.orders",
            "archive.v1.sales.items",
        ]
        assert json.loads(environment["PAIMON_INDEX_ALLOW_EXTERNAL"]) == ["s3://external/data"]

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (33554432, "33554432"),
            (10737418240, "10737418240"),
            (12.5, "12.5"),
            (0, "0"),
            (False, "false"),
            ("60", "60"),
            (["a", "b"], '["a","b"]'),
            ({"a": 1}, '{"a":1}'),
        ],
    )
    def test_any_setting_reaches_the_service_as_it_reads_it(self, value: object, text: str) -> None:
        rendered = render(MINIMAL, settings={"page_size": value})

        assert rendered.environment["PAIMON_INDEX_PAGE_SIZE"] == text

    @pytest.mark.parametrize("name", ["warehouses", "port", "tokens_file", "auth", "disk_cache_bytes"])
    def test_what_the_chart_sets_is_not_set_twice(self, name: str) -> None:
        assert f"settings.{name}: this is set by" in refusal(MINIMAL, settings={name: "1"})

    def test_a_changed_setting_starts_new_pods(self) -> None:
        before, after = (render(MINIMAL, settings={"page_size": size}) for size in (1, 2))

        name = "checksum/config"
        assert before.pod["metadata"]["annotations"][name] != after.pod["metadata"]["annotations"][name]

    def test_no_service_of_the_namespace_changes_the_settings(self) -> None:
        # A Service named paimon-index would set PAIMON_INDEX_PORT=tcp://10.0.0.1:8080.
        assert render(MINIMAL).pod["spec"]["enableServiceLinks"] is False

    def test_a_warehouse_is_needed(self) -> None:
        assert "warehouses: name at least one" in refusal(auth__enabled=False)


class TestCache:
    def test_it_lasts_as_long_as_the_pod_unless_it_is_claimed(self) -> None:
        rendered = render(MINIMAL)

        assert rendered.volumes["cache"]["emptyDir"] == {"sizeLimit": "10Gi"}
        assert rendered.all("StatefulSet") == []

    def test_a_claim_makes_a_stateful_set_with_a_volume_for_each_pod(self) -> None:
        rendered = render(FULL)

        stateful = rendered.one("StatefulSet")["spec"]
        (claim,) = stateful["volumeClaimTemplates"]
        assert rendered.all("Deployment") == []
        assert (
            stateful["serviceName"] == rendered.one("Service", "t-paimon-index-headless")["metadata"]["name"]
        )
        assert claim["spec"]["resources"]["requests"]["storage"] == "100Gi"
        assert claim["spec"]["storageClassName"] == "fast"
        assert rendered.mounts["/var/cache/paimon-index"] == claim["metadata"]["name"]

    @pytest.mark.parametrize(
        ("size", "size_bytes"),
        [("10Gi", 10 << 30), ("500Mi", 500 << 20), ("1Ti", 1 << 40), ("20G", 20 * 10**9)],
    )
    def test_the_service_stays_below_the_size_of_the_volume(self, size: str, size_bytes: int) -> None:
        environment = render(MINIMAL, cache__size=size).environment

        assert int(environment["PAIMON_INDEX_DISK_CACHE_BYTES"]) == size_bytes * 9 // 10
        assert environment["PAIMON_INDEX_DISK_CACHE"].startswith("/var/cache/paimon-index/")

    def test_without_one_nothing_is_kept_on_disk(self) -> None:
        rendered = render(OPEN)

        assert rendered.environment["PAIMON_INDEX_DISK_CACHE"] == ""
        assert rendered.environment["TMPDIR"] in rendered.mounts
        assert "cache" not in rendered.volumes


class TestPods:
    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_they_have_no_privileges(self, values: Path) -> None:
        rendered = render(values)

        for pod in (rendered.pod["spec"], rendered.one("Pod")["spec"]):
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] > 0
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert pod["automountServiceAccountToken"] is False
            for container in pod["containers"]:
                assert container["securityContext"] == {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                }

    def test_probes_ask_the_endpoints_that_are_made_for_them(self) -> None:
        container = render(MINIMAL).container

        paths = {
            probe: container[probe]["httpGet"]["path"]
            for probe in ("startupProbe", "readinessProbe", "livenessProbe")
        }
        assert paths == {
            "startupProbe": "/health/live",
            "readinessProbe": "/health/ready",
            "livenessProbe": "/health/live",
        }

    def test_they_listen_until_balancers_noticed_and_have_time_to_finish(self) -> None:
        rendered = render(MINIMAL)

        assert rendered.container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
        assert rendered.pod["spec"]["terminationGracePeriodSeconds"] == 60
        assert "must be longer" in refusal(MINIMAL, terminationGracePeriodSeconds=5)

    def test_memory_is_bounded(self) -> None:
        resources = render(MINIMAL).container["resources"]

        assert resources["requests"]["memory"] == resources["limits"]["memory"]

    def test_they_are_spread_by_their_own_labels(self) -> None:
        rendered = render(MINIMAL)

        constraints = rendered.pod["spec"]["topologySpreadConstraints"]
        assert {each["topologyKey"] for each in constraints} == {
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
        }
        assert [each["labelSelector"]["matchLabels"] for each in constraints] == [PODS, PODS]

    def test_a_constraint_may_select_pods_by_itself(self) -> None:
        selector = {"matchLabels": {"team": "data"}}
        constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}

        rendered = render(MINIMAL, topologySpreadConstraints=[{**constraint, "labelSelector": selector}])

        (spread,) = rendered.pod["spec"]["topologySpreadConstraints"]
        assert spread["labelSelector"] == selector

    def test_credentials_are_variables_or_files(self) -> None:
        rendered = render(FULL)

        assert {"secretRef": {"name": "s3-credentials"}} in rendered.container["envFrom"]
        volume = rendered.volumes[rendered.mounts["/etc/paimon-index/credentials"]]
        assert volume["secret"]["secretName"] == "gcs-key"

    def test_cloud_identities_are_annotations_of_the_service_account(self) -> None:
        rendered = render(FULL)

        account = rendered.one("ServiceAccount")
        assert account["metadata"]["annotations"] == {
            "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/paimon-index"
        }
        assert rendered.pod["spec"]["serviceAccountName"] == account["metadata"]["name"]

    def test_an_image_is_named_by_version_or_digest(self) -> None:
        assert re.fullmatch(r"paimon-index:\d+\.\d+\.\d+", render(MINIMAL).container["image"])
        assert render(FULL).container["image"].startswith("registry.example.com/data/paimon-index@sha256:")

    def test_every_object_of_the_service_selects_its_pods_and_no_others(self) -> None:
        rendered = render(FULL)

        selectors = [
            *(each["spec"]["selector"] for each in rendered.all("Service")),
            rendered.one("StatefulSet")["spec"]["selector"]["matchLabels"],
            rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
            rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        ]
        assert selectors == [PODS] * 5
        assert PODS.items() <= rendered.pod["metadata"]["labels"].items()
        assert not PODS.items() <= rendered.one("Pod")["metadata"]["labels"].items()


class TestScaling:
    @pytest.mark.parametrize(("cache", "kind"), [("claim", "StatefulSet"), ("emptyDir", "Deployment")])
    def test_the_autoscaler_decides_how_many_pods_there_are(self, cache: str, kind: str) -> None:
        rendered = render(MINIMAL, autoscaling__enabled=True, cache__type=cache)

        target = rendered.one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
        assert target == {"apiVersion": "apps/v1", "kind": kind, "name": "t-paimon-index"}
        assert "replicas" not in rendered.one(kind)["spec"]

    def test_one_pod_at_a_time_is_taken_away(self) -> None:
        assert render(MINIMAL).one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1

    def test_no_pod_goes_before_a_new_one_is_ready(self) -> None:
        strategy = render(MINIMAL).one("Deployment")["spec"]["strategy"]

        assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


class TestNotes:
    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_they_tell_how_to_ask_the_first_question(self, values: Path) -> None:
        done = helm("install", "t", CHART, "--values", values, "--dry-run=client", "--namespace", "lake")

        notes = done.stdout.partition("NOTES:")[2]
        assert done.returncode == 0, done.stderr
        assert "/v1/" in notes
        assert "/plan" in notes
        assert ("Authorization: Bearer" in notes) is (values != OPEN)
        assert ("WARNING: auth.enabled is false" in notes) is (values == OPEN)
        assert ("port-forward" in notes) is ("ingress" not in values.read_text())


def test_all_objects_carry_the_labels_that_kubernetes_recommends() -> None:
    rendered: Rendered = render(FULL)

    for each in rendered.objects:
        assert each["metadata"]["labels"].keys() >= {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/version",
            "app.kubernetes.io/managed-by",
            "helm.sh/chart",
        }


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_service_takes_the_environment_of_its_pods(values: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render(values)
    for name, value in rendered.environment.items():
        monkeypatch.setenv(name, value)

    settings = Settings.load()

    assert settings.host == "0.0.0.0"  # noqa: S104 - what the pods listen on
    assert {port["containerPort"] for port in rendered.container["ports"]} == {settings.port}
    assert settings.warehouses == json.loads(rendered.environment["PAIMON_INDEX_WAREHOUSES"])
