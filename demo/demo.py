# ruff: noqa: INP001 - a program of its own, in no package
"""The main job in three requests: starts the service on the sample warehouse, asks it, checks the answers.

Run by ``make demo``; leaves the service running until Ctrl-C unless ``--once`` is given. Ends with status 1
when an answer is not what the tables hold. With ``--sql`` Spark asks, in SQL: see ``sql.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.spark.environment import spark_python

WAREHOUSE = Path(__file__).parent / "warehouse"
CATALOG_JARS = Path(__file__).parents[1] / "jvm" / "target"
SERVICE = Path(sys.executable).with_name("paimon-index")
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and what its answer must hold.

    Attributes:
        about: what is asked, for people.
        path: below the database.
        members: of the answer, each as JSON; entries of lists are compared by the members named here.
    """

    about: str
    path: str
    body: dict[str, Any]
    members: dict[str, Any]


QUESTIONS = (
    Question(
        "Which files and rows of `sessions` can hold a fee of 58.43? (a bit-slice index knows the rows)",
        "tables/sessions/plan",
        {"filter": "fee = 58.43", "selection": "positions"},
        {
            "summary": {"files_total": 10, "files_kept": 3, "rows_selected": 8},
            "files": [
                {
                    "file_name": "data-a5ef52ca-e60b-494e-bf0d-5b2b3907bf12-0.parquet",
                    "selection": [6, 87, 125],
                },
                {
                    "file_name": "data-59c0f0da-4dbd-4b78-8ab7-35e61872058d-0.parquet",
                    "selection": [21, 32, 81],
                },
                {"file_name": "data-0c045eb1-3832-4e3a-95c7-820bb5d6e6ae-0.parquet", "selection": [11, 37]},
            ],
        },
    ),
    Question(
        "Which rows of one data file of `visits` are deleted?",
        "tables/visits/deletions",
        {"files": ["data-2dc337a7-a232-4ec3-8b9a-eb986f9dbff1-0.parquet"], "encoding": "positions"},
        {
            "deletions": [
                {
                    "cardinality": 17,
                    "positions": [2, 3, 14, 25, 36, 47, 58, 69, 77, 80, 91, 102, 113, 124, 135, 146, 157],
                }
            ]
        },
    ),
    Question(
        "Which bucket of `users` does each key live in? (null: the key is new)",
        "tables/users/buckets/lookup",
        {
            "partition": {"dte": "2024-01-01"},
            "keys": [{"uid": 999999967}, {"uid": 1000000822}, {"uid": 1000014967}],
        },
        {
            "bucket_mode": "hash_dynamic",
            "buckets": [
                {"key_hash": 210304340, "bucket": 0},
                {"key_hash": -536275214, "bucket": 5},
                {"key_hash": 2099020797, "bucket": None},
            ],
        },
    ),
)


def main() -> int:
    """Runs the demonstration; gives the exit status."""
    arguments = argparse.ArgumentParser(description="Ask the sample warehouse three questions.")
    arguments.add_argument("--once", action="store_true", help="stop after the answers")
    arguments.add_argument("--port", type=int, default=0, help="port to listen on; a free one unless given")
    arguments.add_argument("--sql", metavar="CONNECTOR", help="ask in SQL; the jar of the engine's connector")
    options = arguments.parse_args()
    if options.sql is not None:
        check_needs(options.sql)
    port = options.port or free_port()
    command = [str(SERVICE), "serve", "--warehouse", f"main={WAREHOUSE}", "--port", str(port)]
    say(f"$ paimon-index serve --warehouse main={WAREHOUSE} --port {port}")
    with subprocess.Popen(command) as service:  # noqa: S603 - our own program
        try:
            wait_until_ready(service, f"http://127.0.0.1:{port}/health/ready")
            url = f"http://127.0.0.1:{port}"
            if options.sql is None:
                answers = [ask(question, f"{url}/v1/main/databases/demo") for question in QUESTIONS]
                right = all(answers)
            else:
                right = ask_in_spark(url, options.sql)
            if right and not options.once:
                say(f"\nThe service is at http://127.0.0.1:{port}/docs; Ctrl-C ends it.")
                service.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            service.terminate()
    return 0 if right else 1


def check_needs(connector: str) -> None:
    """Ends the program where Spark could not be started."""
    if shutil.which("java") is None:
        raise SystemExit("Spark needs Java 17, and java cannot be found")
    if not Path(connector).is_file():
        raise SystemExit(
            f"CONNECTOR={connector} is no file: name the jar of Apache Paimon's connector for Spark 4.0, "
            "release 1.4 or later. Its project offers it for download: paimon-spark-4.0_2.13-VERSION.jar"
        )


def ask_in_spark(url: str, connector: str) -> bool:
    """Has Spark ask the same SQL without the service and with it; tells whether the rows were the same."""
    (catalog,) = CATALOG_JARS.glob("paimon-index-catalog-*.jar")
    python = str(spark_python())
    command = [python, str(Path(__file__).with_name("sql.py")), url, str(WAREHOUSE), connector, str(catalog)]
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, check=False, env=environment).returncode == 0  # noqa: S603 - our own program


def ask(question: Question, database: str) -> bool:
    """Sends one request and prints it with its answer; tells whether the answer is right."""
    url = f"{database}/{question.path}"
    body = json.dumps(question.body)
    say(f"\n# {question.about}\n$ curl -s {url} -d '{body}'")
    answer = json.loads(post(url, body))
    say(readable(answer))
    if not holds(answer, question.members):
        say(f"WRONG: expected {json.dumps(question.members)}")
        return False
    return True


def post(url: str, body: str) -> bytes:
    """The answer to a POST: by curl where there is one, since that is what the page shows."""
    curl = shutil.which("curl")
    if curl:
        return subprocess.run([curl, "-s", url, "-d", body], check=True, capture_output=True).stdout  # noqa: S603 - curl
    with urllib.request.urlopen(url, body.encode(), timeout=60) as response:  # noqa: S310 - http
        content: bytes = response.read()
        return content


def readable(value: Any, margin: str = "") -> str:  # noqa: ANN401 - JSON
    """JSON with one line for each member, and for each list or object that holds no other."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list) or not any(isinstance(each, dict | list) for each in inner):
        return json.dumps(value)
    deeper = margin + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {readable(member, deeper)}" for name, member in value.items()]
    else:
        lines = [readable(item, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(deeper + line for line in lines)
    return f"{opening}\n{body}\n{margin}{closing}"


def holds(answer: Any, expected: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether ``answer`` has all that ``expected`` has; lists must be of one length."""
    match expected:
        case dict():
            return isinstance(answer, dict) and all(
                name in answer and holds(answer[name], value) for name, value in expected.items()
            )
        case list():
            return (
                isinstance(answer, list)
                and len(answer) == len(expected)
                and all(holds(one, other) for one, other in zip(answer, expected, strict=True))
            )
        case _:
            return bool(answer == expected)


def wait_until_ready(service: subprocess.Popen[bytes], url: str) -> None:
    """Polls until the service answers; ends the program if it has ended or takes too long."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        if service.poll() is not None:
            raise SystemExit(f"the service ended with status {service.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - http
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise SystemExit(f"the service was not ready after {START_SECONDS} s")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def say(text: str) -> None:
    """Prints at once, so that the service's own lines keep their place."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
