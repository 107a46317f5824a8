"""The chart as helm renders it."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parent.parent.parent / "helm" / "paimon-index"
VALUES = sorted((CHART / "ci").glob("*.yaml"))
MINIMAL = CHART / "ci" / "minimal.yaml"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What ``helm template`` gives.

    Attributes:
        objects: in helm's order.
    """

    objects: list[dict[str, Any]]

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, name: str | None = None) -> dict[str, Any]:
        (found,) = [each for each in self.all(kind) if name is None or each["metadata"]["name"] == name]
        return found

    @property
    def pod(self) -> dict[str, Any]:
        """The template of the pods that answer."""
        (workload,) = self.all("Deployment") + self.all("StatefulSet")
        template: dict[str, Any] = workload["spec"]["template"]
        return template

    @property
    def container(self) -> dict[str, Any]:
        (container,) = [each for each in self.pod["spec"]["containers"] if each["name"] == "paimon-index"]
        return dict(container)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the container with their values; its own win over the ConfigMap."""
        own = {each["name"]: each["value"] for each in self.container["env"] if "value" in each}
        return {**self.one("ConfigMap", "t-paimon-index")["data"], **own}

    @property
    def mounts(self) -> dict[str, str]:
        """Names of volumes by where they are."""
        return {each["mountPath"]: each["name"] for each in self.container["volumeMounts"]}

    @property
    def volumes(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.pod["spec"]["volumes"]}


def helm(*arguments: str | Path, values: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm; ``values`` is what it reads with ``--values -``."""
    program = os.environ.get("HELM") or shutil.which("helm")
    if program is None:
        pytest.skip("helm is missing: make chart-check builds it with Go")
    command = [program, *arguments]
    return subprocess.run(command, input=values, capture_output=True, text=True, check=False)  # noqa: S603 - helm


def template(
    files: tuple[Path, ...], chart: Path, overrides: dict[str, object], *arguments: str
) -> subprocess.CompletedProcess[str]:
    given = [argument for file in files for argument in ("--values", file)]
    more = yaml.safe_dump(nested(overrides))
    return helm(
        "template", "t", chart, "--namespace", "lake", *arguments, *given, "--values", "-", values=more
    )


def render(
    *files: Path, chart: Path = CHART, kubeconfig: Path | None = None, **overrides: object
) -> Rendered:
    """Return the chart with these values files and, above them, ``a__b=1`` for ``a: {b: 1}``.

    ``files``: of values.
    ``chart``: its directory.
    ``kubeconfig``: of the cluster that templates may ask, if there is one.
    ``overrides``: single values.
    """
    asked = (
        ()
        if kubeconfig is None
        else ("--dry-run=server", "--disable-openapi-validation", "--kubeconfig", str(kubeconfig))
    )
    done = template(files, chart, overrides, *asked)
    assert done.returncode == 0, done.stderr
    return Rendered([each for each in yaml.safe_load_all(done.stdout) if each])


def refusal(*files: Path, **overrides: object) -> str:
    """Return what helm says of values that it does not take."""
    done = template(files, CHART, overrides)
    assert done.returncode != 0, "these values were taken"
    return done.stderr


def nested(overrides: dict[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in overrides.items():
        *parents, leaf = path.split("__")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return tree


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[dict[str, dict[str, str]], Path]]:
    """Yield an API server that has Secrets of the namespace ``lake`` alone: these, and how to reach it."""
    secrets: dict[str, dict[str, str]] = {}
    kinds = {
        "v1": ("Secret", "ServiceAccount", "ConfigMap", "Service"),
        "apps/v1": ("Deployment",),
        "policy/v1": ("PodDisruptionBudget",),
    }
    groups = [
        {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}]}
        for group in ("apps", "policy")
    ]
    answers: dict[str, object] = {
        "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
    }
    for version, names in kinds.items():
        resources = [
            {"name": f"{kind.lower()}s", "namespaced": True, "kind": kind, "verbs": ["get"]} for kind in names
        ]
        listed = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        answers[f"/api/{version}" if version == "v1" else f"/apis/{version}"] = listed

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.removeprefix("/api/v1/namespaces/lake/secrets/")
            answer = answers.get(path)
            if name in secrets:
                metadata = {"name": name, "namespace": "lake"}
                answer = {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": secrets[name]}
            content = json.dumps(answer or {"kind": "Status", "status": "Failure", "code": 404}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as listener:
        serving = threading.Thread(target=listener.serve_forever)
        serving.start()
        context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lake"}}
        configuration = directory / "kubeconfig"
        configuration.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [
                        {"name": "c", "cluster": {"server": f"http://127.0.0.1:{listener.server_port}"}}
                    ],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [context],
                }
            )
        )
        yield secrets, configuration
        listener.shutdown()
        serving.join()
