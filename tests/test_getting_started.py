"""Each block of docs/getting-started.md does what the page says, one after the other, in a clone."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "getting-started.md").read_text()
BLOCKS: Final = re.findall(r"([^\n]*(?:\n[^\n]+)*)\n\n```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BASH: Final = shutil.which("bash") or "/bin/bash"


def run(*command: str, environment: Mapping[str, str], where: Path) -> str:
    done = subprocess.run(  # noqa: S603 - the page's
        command, capture_output=True, text=True, check=False, env=dict(environment), cwd=where
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that a reader of the page may write to."""
    directory = tmp_path_factory.mktemp("clone")
    for name in ("demo", ".venv"):
        (directory / name).symlink_to(ROOT / name)
    return directory


@pytest.fixture(scope="module")
def shell(clone: Path) -> tuple[str, dict[str, str], str]:
    """Return what the blocks before the service print; the variables that they leave.

    The block of the service.
    """
    scripts = [script for _, language, script in BLOCKS if language == "sh"]
    (serves,) = [position for position, script in enumerate(scripts) if "paimon-index serve" in script]
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    script = "set -e\n" + "".join(scripts[:serves])
    printed = run(BASH, "-c", script, environment=environment, where=clone)
    return printed, {**environment, "warehouse": str(clone / "build" / "own")}, scripts[serves]


@pytest.fixture(scope="module")
def served(clone: Path, shell: tuple[str, dict[str, str], str]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    _, environment, script = shell
    process = subprocess.Popen(  # noqa: S603 - the page's
        [BASH, "-c", script],
        env={**environment, "PAIMON_INDEX_PORT": str(port), "PAIMON_INDEX_DRAIN_SECONDS": "0"},
        cwd=clone,
    )
    url = f"http://localhost:{port}"
    give_up = time.monotonic() + 120
    try:
        while True:
            assert process.poll() is None, "the service ended"
            assert time.monotonic() < give_up, "the service is not ready"
            try:
                httpx.get(f"{url}/health/ready", timeout=120).raise_for_status()
                break
            except httpx.HTTPError:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def test_a_block_that_is_not_run_says_so_above_it() -> None:
    unmarked = [code for above, language, code in BLOCKS if not language and "Not run" not in above]

    assert len(BLOCKS) == len(re.findall(r"^```\w*$", PAGE, re.MULTILINE)) / 2
    assert unmarked == []


@pytest.mark.long
def test_commands_describe_plan_and_advise_on_a_table(shell: tuple[str, dict[str, str], str]) -> None:
    printed, _, _ = shell

    for text in (
        "table: sessions\nschema_id: 0",
        "too little for any index to matter",
        "files_tried",
    ):
        assert text in printed


@pytest.mark.long
def test_curl_asks_the_service_for_a_plan(
    clone: Path, shell: tuple[str, dict[str, str], str], served: str
) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is missing")
    (script,) = [script for _, _, script in BLOCKS if script.startswith("curl")]

    printed = run(
        BASH, "-c", script.replace("http://localhost:8080", served), environment=shell[1], where=clone
    )

    assert '"files_kept":3' in printed
    assert '"selection":[6,87,125]' in printed


@pytest.mark.long
def test_pyiceberg_reads_the_rows(clone: Path, shell: tuple[str, dict[str, str], str], served: str) -> None:
    (script,) = [script for _, language, script in BLOCKS if language == "python"]
    code = script.replace("http://localhost:8080", served)

    assert run(sys.executable, "-c", code, environment=shell[1], where=clone) == "8\n"
