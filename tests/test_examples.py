"""Each script of ``examples/`` prints what stands in it; other directories run the rest."""

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.example_scripts import EXAMPLES, SAMPLES, output, written_output
from tests.served import serving

BY_COMMAND = {"curl.sh": ["sh"], "client.py": [sys.executable], "library.py": [sys.executable]}


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with serving(SAMPLES) as served:
        yield {**os.environ, "URL": f"http://localhost:{served.port}"}


@pytest.mark.long
@pytest.mark.parametrize("script", BY_COMMAND)
def test_an_example_prints_what_stands_in_it(script: str, environment: dict[str, str]) -> None:
    if script == "curl.sh" and not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl and jq are missing")

    printed = output([*BY_COMMAND[script], str(EXAMPLES / script)], environment)

    assert printed == written_output(script)


def test_every_example_is_named_on_their_page() -> None:
    page = (EXAMPLES / "README.md").read_text()

    names = {str(each.relative_to(EXAMPLES)) for each in EXAMPLES.rglob("*.*")}
    assert {name for name in names if f"({name})" not in page} == {"README.md"}
