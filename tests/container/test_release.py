"""What a release is made of, and who publishes it."""

import gzip
import importlib.util
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
GITHUB = ROOT / ".github"
WORKFLOW, CHECKS = (
    yaml.safe_load((GITHUB / "workflows" / f"{name}.yml").read_text()) for name in ("release", "pull-request")
)
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """Return the program that ``make release`` runs."""
    specification = importlib.util.spec_from_file_location("release", ROOT / "container" / "release.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_service_and_client_have_one_version() -> None:
    service, client = (
        tomllib.loads((ROOT / directory / "pyproject.toml").read_text())["project"]["version"]
        for directory in (".", "client")
    )

    assert service == client


@pytest.mark.parametrize("directory", ["client", "jvm/src/main/resources/META-INF"])
@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_every_part_has_the_licence_of_the_whole(directory: str, name: str) -> None:
    assert (ROOT / directory / name).read_text() == (ROOT / name).read_text()


def test_archives_depend_on_names_contents_and_time_alone(release: ModuleType, tmp_path: Path) -> None:
    one, other, later = (tmp_path / name for name in ("one.tgz", "other.tgz", "later.tgz"))
    release.write_archive(one, "docs", {"a": b"1", "b/c": b"2"}, 1_000_000_000)
    release.write_archive(other, "docs", {"b/c": b"2", "a": b"1"}, 1_000_000_000)
    release.write_archive(later, "docs", {"b/c": b"2", "a": b"1"}, 1_000_000_001)

    with tarfile.open(one) as archive:
        found = [(each.name, each.mtime, each.mode, each.uid, each.uname) for each in archive]
    assert one.read_bytes() == other.read_bytes() != later.read_bytes()
    assert found == [(name, 1_000_000_000, 0o644, 0, "") for name in ("docs/a", "docs/b/c")]
    assert gzip.decompress(one.read_bytes())


def test_builds_that_differ_are_told_apart(release: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "same").write_text("1")
    release.compare(first, second)

    (second / "more").write_text("1")
    (second / "same").write_text("2")

    with pytest.raises(SystemExit, match="differ in more, same"):
        release.compare(first, second)


@pytest.mark.parametrize("workflow", [WORKFLOW, CHECKS], ids=["release", "pull-request"])
def test_actions_are_pinned_by_digests(workflow: dict[str, Any]) -> None:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", each)] == []


@pytest.mark.parametrize("workflow", [WORKFLOW, CHECKS], ids=["release", "pull-request"])
def test_each_job_has_the_rights_that_it_names_and_no_others(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {}
    assert all("permissions" in job for job in workflow["jobs"].values())


def test_a_change_that_is_proposed_meets_every_check() -> None:
    (job,) = CHECKS["jobs"].values()

    assert job["steps"][-1]["run"] == ".ci/run"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize(
    ("image", "is_taken"),
    [
        (f"docker.io/library/python:3.13-slim@sha256:{'0a' * 32}", True),
        ("docker.io/library/python:3.13-slim", False),
        ("docker.io/library/python@sha256:0a", False),
        ("", False),
    ],
)
def test_the_image_of_a_release_stands_on_images_that_are_named_by_digest(
    image: str, *, is_taken: bool
) -> None:
    # The first step: nothing is built on what is refused.
    script = WORKFLOW["jobs"]["image"]["steps"][0]["run"]
    environment = {"BASE_IMAGE": f"base@sha256:{'1b' * 32}", "MAVEN_IMAGE": image}

    done = subprocess.run(  # noqa: S603 - ours
        ["/bin/bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode == 0) == is_taken
    assert is_taken or "the variable MAVEN_IMAGE is" in done.stdout


def test_the_image_that_is_pushed_is_the_one_that_was_checked() -> None:
    build, push = WORKFLOW["jobs"]["image"], WORKFLOW["jobs"]["push"]
    builds = [step["run"] for step in STEPS if "make image" in step.get("run", "")]

    assert len(builds) == 1
    assert "secrets." not in yaml.safe_dump(build)
    assert push["needs"] == "image"
    assert all("checkout" not in step.get("uses", "") for step in push["steps"])
    runs = [step.get("run", "") for step in push["steps"]]
    (compares,) = [position for position, run in enumerate(runs) if '= "$CHECKED" ]' in run]
    (pushes,) = [position for position, run in enumerate(runs) if "podman push" in run]
    assert compares < pushes


@pytest.mark.parametrize(
    "form", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[0-9]*.yml")), ids=lambda form: form.stem
)
def test_forms_of_issues_ask_for_something(form: Path) -> None:
    asked = yaml.safe_load(form.read_text())

    assert asked["name"]
    assert asked["description"]
    assert any(each.get("validations", {}).get("required") for each in asked["body"])


def test_the_workflow_runs_what_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {target for step in STEPS for target in re.findall(r"make ([a-z-]+)", step.get("run", ""))}

    assert targets == {"chart-check", "release-check", "image"}
    assert {target for target in targets if f"\n{target}: " not in makefile} == set()
