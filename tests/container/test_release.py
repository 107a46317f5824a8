"""What a release is made of, and who publishes it."""

from __future__ import annotations

import gzip
import importlib.util
import re
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The program that ``make release`` runs."""
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


def test_actions_are_pinned_by_digests() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", each)] == []


def test_each_job_has_the_rights_that_it_names_and_no_others() -> None:
    assert WORKFLOW["permissions"] == {}
    assert all("permissions" in job for job in WORKFLOW["jobs"].values())


def test_the_workflow_runs_what_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {target for step in STEPS for target in re.findall(r"make ([a-z-]+)", step.get("run", ""))}

    assert targets == {"chart-check", "release-check", "image"}
    assert {target for target in targets if f"\n{target}: " not in makefile} == set()
