"""``paimon-index demo``: sample tables for whoever has the package and nothing else."""

import json
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.cli.test_serving import AT_ONCE, EVERY_ADDRESS, PROGRAM, WAREHOUSE


@contextmanager
def demonstrating(**environment: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a running demonstration, and the lines that it printed before it listened."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(  # noqa: S603 - our own program
        [str(PROGRAM), "demo", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "", "PYTHONUNBUFFERED": "1", **AT_ONCE, **environment},
    )
    assert process.stdout is not None
    with process, process.stdout:
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if " running on http" in line:
                break
        try:
            yield f"http://localhost:{port}", lines
        finally:
            process.terminate()


def test_the_explorer_and_three_lines_to_paste_answer_from_sample_tables() -> None:
    with demonstrating() as (url, lines):
        pasted = [shlex.split(line) for line in lines if line.startswith("curl ")]
        answers = [httpx.post(line[2], content=line[4], timeout=120) for line in pasted]
        page = httpx.get(f"{url}/ui", timeout=120)
        rebound = httpx.get(f"{url}/v1/config", headers={"Host": "evil.example"}, timeout=120)

    assert lines[0] == f"Explorer: {url}/ui (Ctrl-C ends the service)"
    assert page.status_code == 200
    plan, count, lookup = (answer.json() for answer in answers)
    assert [file["selection"] for file in plan["files"]] == [[6, 87, 125], [21, 32, 81], [11, 37]]
    assert count["groups"][0]["rows"] == 8
    assert lookup["buckets"][0]["bucket"] == 0
    # It listens to this machine, and so is for this machine.
    assert rebound.status_code == 403


def test_whoever_reaches_a_container_reads_the_samples_and_nothing_that_its_environment_names(
    tmp_path: Path,
) -> None:
    orders = tmp_path / "own.db" / "orders"
    shutil.copytree(WAREHOUSE / "demo.db" / "sessions", orders)
    environment = {
        "PAIMON_INDEX_HOST": EVERY_ADDRESS,
        "PAIMON_INDEX_WAREHOUSES": json.dumps({"own": str(tmp_path)}),
        "PAIMON_INDEX_ALLOW_EXTERNAL": f"file://{tmp_path}",
    }
    with demonstrating(**environment) as (url, _):
        config = httpx.get(f"{url}/v1/config", headers={"Host": "index.example.com"}, timeout=120)
        elsewhere = httpx.get(
            f"{url}/v1/main/databases/own/tables/orders", params={"location": f"file://{orders}"}, timeout=120
        )

    assert config.json()["warehouses"] == ["main"]
    assert elsewhere.status_code == 404
