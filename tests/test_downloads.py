"""Long installations are seen to move, also from within tests, and happen once."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import downloads
from tests.environments import one_at_a_time

ROOT = Path(__file__).parents[1]
WITHIN_A_TEST = """
from tests import downloads

def test_downloads():
    print("captured")
    downloads.Terminal.show("Downloads something (400 MB) once")
"""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting pyspark==4.0.5", "  pyspark"),
        ("  Downloading pyspark-4.0.5.tar.gz (434.2 MB)", "    downloads pyspark-4.0.5.tar.gz (434.2 MB)"),
        ("  Building wheel for pyspark (pyproject.toml): started", "    builds pyspark"),
        (
            "Downloaded from central: scheme://host/org/x/1.0/x-1.0.jar (48 MB at 3.0 MB/s)",
            "  x-1.0.jar (48 MB)",
        ),
        # What would bury the rest.
        ("  Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)", None),
        ("  Downloading six-1.17.0-py2.py3-none-any.whl.metadata (1.1 MB)", None),
        ("Downloaded from central: scheme://host/org/x/1.0/x-1.0.pom (2 kB at 1.0 kB/s)", None),
        ("[INFO] Copying x-1.0.jar", None),
    ],
)
def test_what_is_fetched_is_named_with_its_size(line: str, shown: str | None) -> None:
    assert downloads.step_of(line) == shown


def test_a_failure_has_its_status_and_shows_what_was_printed() -> None:
    shown: list[str] = []

    status = downloads.run(["sh", "-c", "echo Collecting six; echo no release >&2; exit 3"], shown.append)

    assert status == 3
    assert shown == ["  six", "Collecting six\nno release"]


def test_pytest_and_its_workers_let_it_through_to_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.downloads import pytest_configure as pytest_configure")
    (tmp_path / "test_within.py").write_text(WITHIN_A_TEST)
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)]

    ran = subprocess.run(  # noqa: S603 - ours
        command, check=True, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
    )

    assert "Downloads something (400 MB) once" in ran.stderr
    assert "captured" not in ran.stdout + ran.stderr


def test_two_that_need_the_same_make_it_once(tmp_path: Path) -> None:
    place, made = tmp_path / "environment", []
    both_are_there = threading.Barrier(2)

    def make() -> None:
        both_are_there.wait()
        with one_at_a_time(place):
            if not place.exists():
                place.mkdir()
                made.append(place)

    others = [threading.Thread(target=make) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join()

    assert made == [place]
