"""Keys of the small side of a join reach the service, and narrow the files of the large side."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.sql_sessions import built_jar
from tests.spark.environment import spark_python
from tests.spark.sessions import CONNECTOR

pytestmark = [pytest.mark.jvm, pytest.mark.connector]

_PROGRAM: Final = Path(__file__).with_name("join_process.py")
_FILES: Final = 36
_JOIN: Final = "FROM facts f JOIN few ON f.k = few.k WHERE name = 'red'"

Ask = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    warehouse, scratch = tmp_path_factory.mktemp("warehouse"), tmp_path_factory.mktemp("scratch")
    python = str(spark_python())
    with subprocess.Popen(  # noqa: S603 - fixed words
        [python, str(_PROGRAM), f"{CONNECTOR},{built_jar()}", str(warehouse)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=scratch,
        env=os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        settings = Settings.load(warehouses={"main": str(warehouse)})
        with listening(create_app(settings), lifespan="on") as service:
            questions, answers = process.stdin, process.stdout

            def ask(query: str) -> dict[str, Any]:
                questions.write(query + "\n")
                questions.flush()
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer

            questions.write(str(service.base_url).rstrip("/") + "\n")
            yield ask
            questions.close()


@pytest.mark.parametrize(
    ("query", "files"),
    [
        (f"SELECT f.k, f.v {_JOIN}", 2),
        ("SELECT k, v FROM facts WHERE k IN (SELECT k FROM few WHERE name = 'red')", 2),
        ("SELECT k, v FROM facts WHERE k IN (SELECT k FROM few WHERE k > 0)", 3),
        (f"SELECT f.k, f.v {_JOIN} AND day = 1", 1),
        (f"SELECT f.k {_JOIN} AND f.v < 2", 2),
        ("SELECT f.k FROM facts f JOIN red ON f.k = red.k AND f.day = red.day", 1),
        (f"SELECT f.k, f.__paimon_partition, f.__paimon_bucket {_JOIN}", 2),
    ],
    ids=["join", "subquery", "any condition", "partition", "filter", "two keys", "metadata columns"],
)
def test_the_keys_of_the_small_side_narrow_the_files(ask: Ask, query: str, files: int) -> None:
    answer = ask(query)

    assert answer["indexed"]["rows"] == answer["plain"]["rows"]
    assert answer["indexed"]["files"] == files < answer["plain"]["files"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f.k, few.k FROM facts f LEFT JOIN few ON f.k = few.k AND name = 'red'",
        "SELECT f.k FROM facts f LEFT ANTI JOIN few ON f.k = few.k AND name = 'red'",
        "SELECT f.k FROM facts f JOIN few ON f.v = few.k WHERE name = 'red'",
        "SELECT k FROM facts WHERE k IN (SELECT k FROM few)",
    ],
    ids=["outer", "anti", "no index", "no condition on the small side"],
)
def test_other_joins_read_what_the_engine_reads(ask: Ask, query: str) -> None:
    answer = ask(query)

    assert answer["indexed"] == answer["plain"]
    assert answer["plain"]["files"] == _FILES
