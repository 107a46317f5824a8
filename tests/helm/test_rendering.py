"""What the chart makes of its values."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from tests.helm.chart import CHART, MINIMAL, VALUES, Rendered, cluster, helm, refusal, render

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
        message = refusal(image__repository="x", warehouses={"main": "s3://bucket"})

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
        rendered = render(MINIMAL, settings={"public_urls": value})

        assert rendered.environment["PAIMON_INDEX_PUBLIC_URLS"] == text

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
        assert "warehouses: name at least one" in refusal(image__repository="x", auth__enabled=False)


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


def violations(pod: dict[str, Any]) -> set[str]:
    """Return what Kubernetes' Pod Security Standard *restricted* forbids in a pod of Linux."""
    security = pod["securityContext"]
    found = {name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name)}
    if security.get("sysctls") or "seLinuxOptions" in security:
        found.add("sysctls or SELinux options")
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
    }
    for volume in pod.get("volumes", ()):
        found |= {f"volume {kind}" for kind in volume.keys() - {"name", "secret"} - allowed}
    for container in [*pod.get("initContainers", ()), *pod["containers"]]:
        # What the container does not set is that of the pod.
        own = security | container.get("securityContext", {})
        capabilities = own.get("capabilities", {})
        for is_right, fault in (
            (not own.get("privileged"), "privileged"),
            (own.get("allowPrivilegeEscalation") is False, "allowPrivilegeEscalation"),
            (own.get("runAsNonRoot") is True and own.get("runAsUser") != 0, "runs as root"),
            (own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"), "seccompProfile"),
            (capabilities.get("drop") == ["ALL"], "keeps capabilities"),
            (set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"}, "adds capabilities"),
            (own.get("procMount", "Default") == "Default", "procMount"),
            (not any("hostPort" in port for port in container.get("ports", ())), "hostPort"),
        ):
            if not is_right:
                found.add(f"{container['name']}: {fault}")
    return found


class TestPods:
    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_they_meet_the_pod_security_standard_restricted(self, values: Path) -> None:
        rendered = render(values)

        for pod in (rendered.pod["spec"], rendered.one("Pod")["spec"]):
            assert violations(pod) == set()

    def test_what_breaks_the_standard_would_be_found(self) -> None:
        container = {"name": "shell", "image": "shell", "ports": [{"containerPort": 1, "hostPort": 1}]}
        volume = {"name": "root", "hostPath": {"path": "/"}}

        rendered = render(MINIMAL, extraContainers=[container], volumes=[volume])

        assert violations(rendered.pod["spec"]) == {
            "volume hostPath",
            "shell: allowPrivilegeEscalation",
            "shell: keeps capabilities",
            "shell: hostPort",
        }

    @pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
    def test_they_write_to_volumes_alone_and_know_nothing_of_kubernetes(self, values: Path) -> None:
        rendered = render(values)

        assert rendered.container["securityContext"]["readOnlyRootFilesystem"] is True
        for pod in (rendered.pod["spec"], rendered.one("Pod")["spec"]):
            assert pod["automountServiceAccountToken"] is False

    def test_containers_of_ones_own_run_before_and_beside_the_service(self) -> None:
        pod = render(FULL).pod["spec"]

        assert [each["name"] for each in pod["initContainers"]] == ["wait"]
        assert [each["name"] for each in pod["containers"]] == ["paimon-index", "proxy"]

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
        assert re.fullmatch(
            r"registry\.example\.com/paimon-index:\d+\.\d+\.\d+", render(MINIMAL).container["image"]
        )
        assert render(FULL).container["image"].startswith("registry.example.com/data/paimon-index@sha256:")

    def test_an_image_is_needed(self) -> None:
        assert "image.repository: name the repository" in refusal(MINIMAL, image__repository="")

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


class TestRotation:
    def test_reloader_watches_the_secrets_that_a_process_reads_once(self) -> None:
        workload = render(FULL).one("StatefulSet")
        more = render(
            MINIMAL,
            extraEnvFrom=[{"secretRef": {"name": "one"}}, {"configMapRef": {"name": "no-secret"}}],
            extraEnv=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "two", "key": "a"}}}],
        ).one("Deployment")

        name = "secret.reloader.stakater.com/reload"
        assert workload["metadata"]["annotations"] == {name: "gcs-key,s3-credentials,tls"}
        assert more["metadata"]["annotations"] == {name: "one,two"}

    def test_tokens_are_read_again_and_restart_nothing(self) -> None:
        rendered = render(MINIMAL)

        assert "annotations" not in rendered.one("Deployment")["metadata"]
        assert rendered.pod["metadata"]["annotations"].keys() == {"checksum/config"}

    def test_an_upgrade_after_a_change_of_a_secret_starts_new_pods(self, tmp_path: Path) -> None:
        with cluster(tmp_path) as (secrets, configuration):
            checksums = []
            for secrets["tls"] in ({"tls.crt": "b2xk"}, {"tls.crt": "b2xk"}, {"tls.crt": "bmV3"}):
                rendered = render(MINIMAL, kubeconfig=configuration, tls__existingSecret="tls")
                checksums.append(rendered.pod["metadata"]["annotations"]["checksum/secrets"])

        assert checksums[0] == checksums[1] != checksums[2]


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

    @pytest.mark.parametrize(("cache", "kind"), [("claim", "StatefulSet"), ("emptyDir", "Deployment")])
    def test_few_revisions_are_kept(self, cache: str, kind: str) -> None:
        assert render(FULL, cache__type=cache).one(kind)["spec"]["revisionHistoryLimit"] == 3


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
        if each["metadata"]["name"] == "t-proxies":
            continue  # one of extraObjects
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "lake"
        assert each["metadata"]["labels"].keys() >= {
            "app.kubernetes.io/name",
            "app.kubernetes.io/instance",
            "app.kubernetes.io/version",
            "app.kubernetes.io/managed-by",
            "helm.sh/chart",
        }


def test_labels_of_ones_own_are_no_part_of_selectors() -> None:
    rendered = render(FULL)

    assert rendered.pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "lake"
    assert rendered.one("StatefulSet")["spec"]["selector"]["matchLabels"] == PODS


def test_more_objects_are_templates_as_yaml_or_text() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Release.Name }}-more\n"
    tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}-other"}}

    rendered = render(MINIMAL, extraObjects=[text, tree])

    assert {each["metadata"]["name"] for each in rendered.all("Secret")} == {"t-more", "t-other"}


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_the_service_takes_the_environment_of_its_pods(values: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render(values)
    for name, value in rendered.environment.items():
        monkeypatch.setenv(name, value)

    settings = Settings.load()

    assert settings.host == "0.0.0.0"  # noqa: S104 - what the pods listen on
    assert {port["containerPort"] for port in rendered.container["ports"]} == {settings.port}
    assert settings.warehouses == json.loads(rendered.environment["PAIMON_INDEX_WAREHOUSES"])
