# ruff: noqa: INP001 - a program of its own, in no package
"""The main job in three questions, and what happens when storage fails.

Run by ``make demo``: starts the service on the sample warehouse, asks it, tells each answer in a sentence,
and checks it against what the tables hold; ends with status 1 where an answer is another one. ``--json``
shows requests and answers as they are. Leaves the service running until Ctrl-C unless ``--once`` is given.
With ``--sql`` Spark asks, in SQL: see ``sql.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WAREHOUSE = Path(__file__).parent / "warehouse"
CATALOG_JARS = ROOT / "jvm" / "target"
LOG = ROOT / "build" / "demo.log"
SERVICE = Path(sys.executable).with_name("paimon-index")
START_SECONDS = 60

SESSIONS = (
    "data-a5ef52ca-e60b-494e-bf0d-5b2b3907bf12-0.parquet",
    "data-59c0f0da-4dbd-4b78-8ab7-35e61872058d-0.parquet",
    "data-0c045eb1-3832-4e3a-95c7-820bb5d6e6ae-0.parquet",
)
DAMAGED = "data-27febff2-f50e-4a94-aa44-d383dbc7bd2b-0.parquet"
VISITS = "data-2dc337a7-a232-4ec3-8b9a-eb986f9dbff1-0.parquet"
DELETED = [2, 3, 14, 25, 36, 47, 58, 69, 77, 80, 91, 102, 113, 124, 135, 146, 157]
FEE = {"filter": "fee = 58.43", "selection": "positions"}


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and what its answer must hold.

    Attributes:
        about: what is asked, for people.
        path: of the table, below its warehouse's address.
        members: of the answer, each as JSON; entries of lists are compared by the members named here.
        sentence: the answer in words.
    """

    about: str
    path: str
    body: dict[str, Any]
    members: dict[str, Any]
    sentence: Callable[[dict[str, Any]], str]


def in_files(answer: dict[str, Any]) -> str:
    """Return what is left to read, and which index took the rest away."""
    summary = answer["summary"]
    # The last step that names an index is the one that decided.
    decided = (
        next(step for step in reversed(file["explain"]) if step["index"]) for file in answer["skipped_files"]
    )
    skipped = Counter(f"{step['index']} on {step['column']}" for step in decided)
    rows = [f"{file['file_name'][:13]}… {file['selection']}" for file in answer["files"]]
    return (
        f"{summary['files_kept']} of {summary['files_total']} files, "
        f"{summary['rows_selected']} of {summary['rows_total']:,} rows: "
        f"{', '.join(f'{index} skipped {files}' for index, files in skipped.items())}.\n  {', '.join(rows)}"
    )


def in_deleted_rows(answer: dict[str, Any]) -> str:
    """How many rows are deleted, and which first."""
    (file,) = answer["deletions"]
    return f"{file['cardinality']} rows: {', '.join(map(str, file['positions'][:6]))}, …"


def in_buckets(answer: dict[str, Any]) -> str:
    """Where each key is."""
    places = (each["bucket"] for each in answer["buckets"])
    return ", ".join("a new key, in no bucket yet" if at is None else f"bucket {at}" for at in places)


def in_warnings(answer: dict[str, Any]) -> str:
    """Return what is left to read, and what the service warns of."""
    return (
        f"{in_short(answer)} The one whose index is damaged is kept, and a warning says so:\n"
        f"  {answer['warnings'][0]}"
    )


def in_short(answer: dict[str, Any]) -> str:
    """Return what is left to read, in short."""
    summary = answer["summary"]
    return f"{summary['files_kept']} of {summary['files_total']} files."


QUESTIONS = (
    Question(
        "Which files and rows of sessions can hold a fee of 58.43?",
        "databases/demo/tables/sessions/plan",
        FEE | {"explain": True},
        {
            "summary": {"files_total": 10, "files_kept": 3, "rows_selected": 8},
            "files": [
                {"file_name": name, "selection": rows}
                for name, rows in zip(SESSIONS, ([6, 87, 125], [21, 32, 81], [11, 37]), strict=True)
            ],
        },
        in_files,
    ),
    Question(
        "Which rows of one data file of visits are deleted?",
        "databases/demo/tables/visits/deletions",
        {"files": [VISITS], "encoding": "positions"},
        {"deletions": [{"cardinality": 17, "positions": DELETED}]},
        in_deleted_rows,
    ),
    Question(
        "Which bucket of users does each of three keys live in?",
        "databases/demo/tables/users/buckets/lookup",
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
        in_buckets,
    ),
)

WITH_DAMAGE = Question(
    "What if an index file is damaged? The same question about a copy that has one:",
    "databases/demo/tables/sessions/plan",
    FEE,
    {"summary": {"files_total": 10, "files_kept": 4}},
    in_warnings,
)
WITHOUT_STORAGE = Question(
    "What if storage dies? The copy is deleted; with max_staleness_ms the service answers from memory:",
    "databases/demo/tables/sessions/plan",
    FEE | {"max_staleness_ms": 600_000},
    WITH_DAMAGE.members,
    in_short,
)


def main() -> int:
    """Run the demonstration; give the exit status."""
    arguments = argparse.ArgumentParser(description="Ask the sample warehouse three questions.")
    arguments.add_argument("--once", action="store_true", help="stop after the answers")
    arguments.add_argument("--json", action="store_true", help="show requests and answers as they are")
    arguments.add_argument("--port", type=int, default=0, help="port to listen on; a free one unless given")
    arguments.add_argument("--sql", metavar="CONNECTOR", help="ask in SQL; the jar of the engine's connector")
    options = arguments.parse_args()
    # As Ctrl-C does: an IDE that ends the demo leaves no service behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    if options.sql is not None:
        check_needs(options.sql)
    with tempfile.TemporaryDirectory() as directory:
        copy = damaged_copy(Path(directory) / "copy")
        port = options.port or free_port()
        served = ["--warehouse", f"main={WAREHOUSE}", "--warehouse", f"copy={copy}", "--port", str(port)]
        LOG.parent.mkdir(exist_ok=True)
        say(f"paimon-index serves {WAREHOUSE.relative_to(ROOT)}; its log is {LOG.relative_to(ROOT)}")
        with (
            LOG.open("wb") as log,
            subprocess.Popen([str(SERVICE), "serve", *served], stdout=log, stderr=log) as service,  # noqa: S603 - our own program
        ):
            try:
                url = f"http://127.0.0.1:{port}"
                wait_until_ready(service, f"{url}/health/ready")
                if options.sql is None:
                    right = ask_all(url, copy, as_json=options.json)
                else:
                    right = ask_in_spark(url, options.sql)
                if right and not options.once:
                    say(f"\nPlans as pictures: {url}/ui, the API: {url}/docs. Ctrl-C ends the service.")
                    service.wait()
            except KeyboardInterrupt:
                return 0
            finally:
                service.terminate()
    return 0 if right else 1


def ask_all(url: str, copy: Path, *, as_json: bool) -> bool:
    """Ask everything, also of a copy that is damaged and then gone; tell whether all answers were right."""
    right = all(ask(question, f"{url}/v1/main", as_json=as_json) for question in QUESTIONS)
    right &= ask(WITH_DAMAGE, f"{url}/v1/copy", as_json=as_json)
    shutil.rmtree(copy)
    right &= ask(WITHOUT_STORAGE, f"{url}/v1/copy", as_json=as_json)
    problem = json.loads(post(f"{url}/v1/copy/{WITH_DAMAGE.path}", json.dumps(FEE)))
    say(f"  Without it the answer is an error, never fewer rows: {problem['detail']}")
    return right and problem["status"] >= 400  # noqa: PLR2004 - HTTP


def damaged_copy(place: Path) -> Path:
    """Return a copy of the sample warehouse with one index file that nobody can read."""
    shutil.copytree(WAREHOUSE, place)
    (index,) = place.rglob(f"{DAMAGED}.index")
    index.write_bytes(bytes(index.stat().st_size))
    return place


def check_needs(connector: str) -> None:
    """End the program where Spark could not be started."""
    if shutil.which("java") is None:
        raise SystemExit("Spark needs Java 17, and java cannot be found")
    if not Path(connector).is_file():
        raise SystemExit(
            f"CONNECTOR={connector} is no file: name the jar of Apache Paimon's connector for Spark 4.0, "
            "release 1.4 or later. Its project offers it for download: paimon-spark-4.0_2.13-VERSION.jar"
        )


def ask_in_spark(url: str, connector: str) -> bool:
    """Have Spark ask the same SQL without the service and with it; tell whether the rows were the same."""
    from tests.spark.environment import spark_python  # noqa: PLC0415 - needs a checkout, and makes an environment

    (catalog,) = CATALOG_JARS.glob("paimon-index-catalog-*.jar")
    python = str(spark_python())
    command = [python, str(Path(__file__).with_name("sql.py")), url, str(WAREHOUSE), connector, str(catalog)]
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, check=False, env=environment).returncode == 0  # noqa: S603 - our own program


def ask(question: Question, warehouse: str, *, as_json: bool) -> bool:
    """Send one request and print the answer; tell whether it is right."""
    url = f"{warehouse}/{question.path}"
    body = json.dumps(question.body)
    say(f"\n{question.about}")
    answer = json.loads(post(url, body))
    if as_json:
        say(f"$ curl -s {url} -d '{body}'\n{readable(answer)}")
    if not holds(answer, question.members):
        say(f"WRONG: expected {json.dumps(question.members)}, found {json.dumps(answer)}")
        return False
    say(f"  {question.sentence(answer)}")
    return True


def post(url: str, body: str) -> bytes:
    """Return the answer to a POST, also one that is an error."""
    try:
        with urllib.request.urlopen(url, body.encode(), timeout=60) as response:  # noqa: S310 - http
            content: bytes = response.read()
    except urllib.error.HTTPError as error:
        content = error.read()
    return content


def readable(value: Any, margin: str = "") -> str:
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


def holds(answer: Any, expected: Any) -> bool:
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
    """Poll until the service answers; end the program if it has ended or takes too long."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        if service.poll() is not None:
            raise SystemExit(f"the service ended with status {service.returncode}; its log is {LOG}")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - http
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise SystemExit(f"the service was not ready after {START_SECONDS} s")


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
