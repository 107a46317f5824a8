"""Who reaches the pods, and whom they reach."""

import re
from typing import Any

import pytest

from tests.helm.chart import CHART, MINIMAL, refusal, render

pytestmark = pytest.mark.helm

FULL = CHART / "ci" / "full.yaml"


class TestTls:
    def test_the_service_answers_by_it_and_is_asked_by_it(self) -> None:
        rendered = render(MINIMAL, tls__existingSecret="tls", serviceMonitor__enabled=True)

        certificate = rendered.environment["PAIMON_INDEX_TLS_CERTIFICATE"]
        assert (
            rendered.volumes[rendered.mounts[certificate.rpartition("/")[0]]]["secret"]["secretName"] == "tls"
        )
        assert rendered.environment["PAIMON_INDEX_TLS_KEY"].endswith("/tls.key")
        assert rendered.container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
        assert rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["scheme"] == "https"
        assert {each["spec"]["ports"][0]["appProtocol"] for each in rendered.all("Service")} == {"https"}

    @pytest.mark.parametrize("given", [{}, {"serverName": "paimon-index.example.com"}])
    def test_certificates_are_verified_as_the_monitor_says(self, given: dict[str, object]) -> None:
        monitor = {"enabled": True, "tlsConfig": given}

        rendered = render(MINIMAL, tls__existingSecret="tls", serviceMonitor=monitor)

        (endpoint,) = rendered.one("ServiceMonitor")["spec"]["endpoints"]
        assert endpoint["tlsConfig"] == (given or {"insecureSkipVerify": True})


class TestIngress:
    def test_there_is_none_unless_asked_for(self) -> None:
        assert render(MINIMAL).all("Ingress") == []

    @pytest.mark.parametrize("endpoint", ["plan", "deletions", "buckets/lookup", "snapshots?page_size=5", ""])
    def test_ingress_nginx_hashes_the_table_of_a_path(self, endpoint: str) -> None:
        ingress = render(FULL).one("Ingress")

        table = "v1/main/databases/db/tables/orders"
        path = ingress["spec"]["rules"][0]["http"]["paths"][0]["path"]
        # As nginx does: from the start, against the path without the query.
        match = re.match(path, f"/{table}/{endpoint}".rstrip("/").partition("?")[0])
        assert match is not None
        assert match[1] == table
        assert annotations_of(ingress)["nginx.ingress.kubernetes.io/upstream-hash-by"] == "$1"
        assert annotations_of(ingress)["nginx.ingress.kubernetes.io/use-regex"] == "true"
        assert annotations_of(ingress)["nginx.ingress.kubernetes.io/upstream-hash-by-subset-size"] == "2"

    @pytest.mark.parametrize("path", ["/health/live", "/v1/config", "/v1/main/databases", "/"])
    def test_ingress_nginx_spreads_other_paths_by_themselves(self, path: str) -> None:
        ingress = render(FULL).one("Ingress")

        match = re.match(ingress["spec"]["rules"][0]["http"]["paths"][0]["path"], path)
        assert match is not None
        assert match[1] == path.removeprefix("/")

    @pytest.mark.parametrize(
        ("controller", "annotation"),
        [
            ("haproxy-ingress", "haproxy-ingress.github.io/balance-algorithm"),
            ("haproxytech", "haproxy.org/load-balance"),
        ],
    )
    def test_haproxy_hashes_as_many_directories_as_a_tables_path_has(
        self, controller: str, annotation: str
    ) -> None:
        ingress = render(MINIMAL, ingress={"enabled": True, "hashByTable": {"controller": controller}}).one(
            "Ingress"
        )

        directories = "/v1/main/databases/db/tables/orders".count("/")
        assert annotations_of(ingress)[annotation] == f"uri depth {directories}"

    def test_annotations_of_ones_own_win(self) -> None:
        name = "nginx.ingress.kubernetes.io/upstream-hash-by"

        ingress = render(FULL, ingress__annotations={name: "$uri"}).one("Ingress")

        assert annotations_of(ingress)[name] == "$uri"


class TestHttpRoute:
    def test_it_leads_from_the_gateway_to_the_service(self) -> None:
        gateway = {"name": "public", "namespace": "gateways"}

        rendered = render(MINIMAL, httpRoute={"enabled": True, "parentRefs": [gateway]}, service__port=80)

        route = rendered.one("HTTPRoute")
        assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
        assert route["spec"] == {
            "parentRefs": [gateway],
            "rules": [{"backendRefs": [{"name": "t-paimon-index", "port": 80}]}],
        }
        assert rendered.one("Service", "t-paimon-index")["spec"]["ports"][0]["port"] == 80

    def test_a_gateway_is_needed(self) -> None:
        assert "httpRoute.parentRefs" in refusal(MINIMAL, httpRoute__enabled=True)


class TestNetworkPolicy:
    def test_callers_and_helms_test_come_in_and_storage_is_reached(self) -> None:
        rendered = render(FULL)

        policy = rendered.one("NetworkPolicy")["spec"]
        (incoming,) = policy["ingress"]
        ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
        test_labels = rendered.one("Pod")["metadata"]["labels"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert incoming["ports"] == [{"port": "http", "protocol": "TCP"}]
        assert ports == {53, 443, 80, 9000}
        assert incoming["from"][-1]["podSelector"]["matchLabels"].items() <= test_labels.items()

    @pytest.mark.parametrize(
        ("warehouse", "endpoint", "port"),
        [
            ("s3://bucket/warehouse", "http://minio.storage:9000", 9000),
            ("s3://bucket/warehouse", "http://user@store.example.com:7480/path", 7480),
            ("s3://bucket/warehouse", "http://store.example.com", 80),
            ("s3://bucket/warehouse", "https://store.example.com:9443", 9443),
            ("hdfs://namenode:8020/warehouse", "", 8020),
            ("http://files.example.com/a:9/warehouse", "", 80),
        ],
    )
    def test_ports_of_other_stores_are_those_of_their_urls(
        self, warehouse: str, endpoint: str, port: int
    ) -> None:
        rendered = render(
            MINIMAL,
            networkPolicy__enabled=True,
            warehouses__main=warehouse,
            extraEnv=[
                {"name": "AWS_ENDPOINT_URL", "value": endpoint},
                {"name": "AWS_REGION", "value": "a:1"},
            ],
        )

        egress = rendered.one("NetworkPolicy")["spec"]["egress"]
        assert [each["port"] for rule in egress for each in rule["ports"]] == [53, 53, 443, port]

    def test_the_port_of_the_shared_cache_is_open(self) -> None:
        rendered = render(
            MINIMAL,
            networkPolicy__enabled=True,
            sharedCache={"url": "hdfs://cache:9000/prefix", "existingSecret": "key"},
        )

        egress = rendered.one("NetworkPolicy")["spec"]["egress"]
        assert [each["port"] for rule in egress for each in rule["ports"]] == [53, 53, 443, 9000]


class TestMonitoring:
    def test_there_is_none_unless_asked_for(self) -> None:
        kinds = {each["kind"] for each in render(MINIMAL).objects}

        assert not {"ServiceMonitor", "PrometheusRule"} & kinds

    def test_the_monitor_finds_one_service_and_reads_with_its_token(self) -> None:
        rendered = render(FULL)

        monitor = rendered.one("ServiceMonitor")
        labels = monitor["spec"]["selector"]["matchLabels"].items()
        (endpoint,) = monitor["spec"]["endpoints"]
        (found,) = [each for each in rendered.all("Service") if labels <= each["metadata"]["labels"].items()]
        assert endpoint["port"] in {port["name"] for port in found["spec"]["ports"]}
        assert endpoint["path"] == "/metrics"
        assert endpoint["authorization"]["credentials"] == {"name": "metrics-token", "key": "token"}
        assert monitor["metadata"]["labels"]["release"] == "prometheus"


def annotations_of(thing: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = thing["metadata"]["annotations"]
    return found
