"""The Dockerfile keeps to what the project has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from app.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LAST_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]


def test_settings_of_the_image_exist() -> None:
    named = re.findall(rf"{ENVIRONMENT_PREFIX}([A-Z_]+)=", DOCKERFILE)

    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


def test_storages_are_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert {"s3", "gcs", "azure", "oss"} <= set(project["optional-dependencies"])
    assert "\nARG EXTRAS=s3\n" in DOCKERFILE


def test_the_last_stage_takes_the_installation_and_runs_nothing_of_the_checkout() -> None:
    copies = re.findall(r"^COPY (.+)$", LAST_STAGE, re.MULTILINE)

    assert copies == [
        "--from=build /opt/paimon-index /opt/paimon-index",
        "--from=catalog /src/jvm/target/paimon-index-catalog-*.jar /opt/paimon-index/jvm/",
        "LICENSE NOTICE container/healthcheck.py /opt/paimon-index/share/",
    ]


def test_only_what_the_wheel_is_made_from_is_sent_to_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    assert rules[0] == "*"
    assert not {"!tests", "!demo", "!.git", "!.venv"} & set(rules)


def test_the_jar_has_the_version_of_the_service() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    module = (ROOT / "jvm" / "pom.xml").read_text()

    assert f"<artifactId>paimon-index-catalog</artifactId>\n  <version>{version}</version>" in module
