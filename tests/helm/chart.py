"""The chart as helm renders it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
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
        (container,) = self.pod["spec"]["containers"]
        return dict(container)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the container with their values; its own win over the ConfigMap."""
        own = {each["name"]: each["value"] for each in self.container["env"]}
        return {**self.one("ConfigMap", "t-paimon-index")["data"], **own}

    @property
    def mounts(self) -> dict[str, str]:
        """Names of volumes by where they are."""
        return {each["mountPath"]: each["name"] for each in self.container["volumeMounts"]}

    @property
    def volumes(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.pod["spec"]["volumes"]}


def helm(*arguments: str | Path, values: str = "") -> subprocess.CompletedProcess[str]:
    """Runs helm; ``values`` is what it reads with ``--values -``."""
    program = os.environ.get("HELM") or shutil.which("helm")
    if program is None:
        pytest.skip("helm is missing: make chart-check builds it with Go")
    command = [program, *arguments]
    return subprocess.run(command, input=values, capture_output=True, text=True, check=False)  # noqa: S603 - helm


def template(
    files: tuple[Path, ...], chart: Path, overrides: dict[str, object]
) -> subprocess.CompletedProcess[str]:
    given = [argument for file in files for argument in ("--values", file)]
    more = yaml.safe_dump(nested(overrides))
    return helm("template", "t", chart, "--namespace", "lake", *given, "--values", "-", values=more)


def render(*files: Path, chart: Path = CHART, **overrides: object) -> Rendered:
    """The chart with these values files and, above them, ``a__b=1`` for ``a: {b: 1}``."""
    done = template(files, chart, overrides)
    assert done.returncode == 0, done.stderr
    return Rendered([each for each in yaml.safe_load_all(done.stdout) if each])


def refusal(*files: Path, **overrides: object) -> str:
    """What helm says of values that it does not take."""
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
