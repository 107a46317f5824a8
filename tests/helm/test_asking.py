"""What `helm test` runs, against a service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tokens
from tests.golden_cases import GoldenWarehouse
from tests.helm.chart import CHART, MINIMAL, render
from tests.telemetry.running import running

pytestmark = pytest.mark.helm

OPEN = CHART / "ci" / "open.yaml"


def ask(values: Path, url: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the container of `helm test` as these values make it, with the service's address."""
    secret = {"name": "token", "key": "token"} if token else {}
    pod = render(values, warehouses={"main": "s3://bucket"}, test__tokenSecret=secret).one("Pod")
    (container,) = pod["spec"]["containers"]
    own = {each["name"]: each.get("value", token) for each in container["env"]}
    command = [sys.executable, *container["command"][1:], *container["args"]]
    environment = {**os.environ, **own, "SERVICE": url}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture(scope="module")
def tokens_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokens.write(tmp_path_factory.mktemp("tokens") / "tokens.json", tokens.entry("test", "secret"))


def test_warehouses_are_listed_where_everybody_may_ask(golden: GoldenWarehouse) -> None:
    with running("--warehouse", f"main={golden.root}", "--no-auth") as service:
        done = ask(OPEN, service.url)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok databases of main: 200" in done.stdout


def test_warehouses_are_listed_with_a_token(golden: GoldenWarehouse, tokens_file: Path) -> None:
    with running("--warehouse", f"main={golden.root}", "--tokens-file", str(tokens_file)) as service:
        known, unknown = (ask(MINIMAL, service.url, token) for token in ("secret", "another"))
        nobody = ask(MINIMAL, service.url)

    assert known.returncode == 0, known.stdout + known.stderr
    assert "ok databases of main: 200" in known.stdout
    assert "FAILED databases of main: 401" in unknown.stdout
    assert unknown.returncode == 1
    assert nobody.returncode == 0
    assert "databases of main" not in nobody.stdout


def test_a_warehouse_that_is_not_there_fails_the_test(tmp_path: Path) -> None:
    with running("--warehouse", f"main={tmp_path / 'nothing'}", "--no-auth") as service:
        done = ask(OPEN, service.url)

    assert done.returncode == 1
    assert "FAILED databases of main: 503" in done.stdout


def test_a_service_that_answers_everybody_by_mistake_fails_the_test(golden: GoldenWarehouse) -> None:
    with running("--warehouse", f"main={golden.root}", "--no-auth") as service:
        done = ask(MINIMAL, service.url)

    assert done.returncode == 1
    assert "FAILED configuration, asked without a token: 200" in done.stdout
