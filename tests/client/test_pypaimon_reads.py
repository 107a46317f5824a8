"""Tables that pypaimon reads with ``planned`` and without: the same rows."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

from app.types import DataField, parse_json, parse_type
from tests import golden_cases, notebooks
from tests import golden_global_indexes as global_indexes
from tests.client.environment import pypaimon_python
from tests.client.sent_filters import may_hold
from tests.example_scripts import EXAMPLES, SAMPLES, output, written_output
from tests.golden_cases import GoldenWarehouse
from tests.golden_filters import some_of_each_kind
from tests.served import serving

pytestmark = pytest.mark.long

_ROOT: Final = Path(__file__).parents[2]
_UNREAD: Final = {"golden.append_dv64", "golden.pk_dv", "golden.external_data", "golden.index_external"}
"""Tables with 64-bit vectors, and those whose files the archive has elsewhere."""
_STATED: Final = """
EQUAL NOT_EQUAL LESS_THAN LESS_OR_EQUAL GREATER_THAN GREATER_OR_EQUAL IS_NULL IS_NOT_NULL STARTS_WITH
ENDS_WITH CONTAINS LIKE IN NOT_IN BETWEEN NOT_BETWEEN
"""
_ONE_IN: Final = 4
"""Of golden queries of a kind; that plans of all of them are right, tests without pypaimon hold."""


def run(program: str, *arguments: str, told: str = "") -> str:
    """Return what a program prints in the environment with pypaimon."""
    finished = subprocess.run(  # noqa: S603 - our own programs
        [str(pypaimon_python()), str(Path(__file__).with_name(program)), *arguments],
        check=False,
        capture_output=True,
        text=True,
        input=told,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'client'}:{_ROOT}"},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def compared(
    warehouse: Path, port: int, asked: Mapping[str, Sequence[Any]], *, odd: int
) -> dict[str, Counter[str]]:
    """Return what became of reads of each table, all of which have the rows of the whole table.

    ``odd``: how many predicates of each table are drawn beside those that are asked.
    """
    arguments = (str(warehouse), f"http://127.0.0.1:{port}", str(odd))
    lines = run("pypaimon_process.py", *arguments, told=json.dumps(asked)).splitlines()
    read = {line["table"]: line for line in map(json.loads, lines)}
    assert [(name, line["other_rows"]) for name, line in read.items() if line["other_rows"]] == []
    assert read.keys() == asked.keys()
    return {name: Counter(line["counts"]) for name, line in read.items()}


def is_stated(predicate: Mapping[str, Any]) -> bool:
    if predicate["kind"] == "COMPOUND":
        return all(map(is_stated, predicate["children"]))
    return predicate["transform"]["name"] == "FIELD_REF" and predicate["function"] in _STATED.split()


def test_no_row_that_pypaimon_finds_fails_by_the_service() -> None:
    lines = run("pypaimon_meanings.py").splitlines()

    assert len(lines) > 4_000
    for line in lines:
        sent = json.loads(line)
        field = DataField(0, "c", parse_type(sent["type"]))
        for value in sent["found"]:
            assert may_hold(sent["filter"], field, parse_json(value, field.type)), (sent["filter"], value)


def some_golden_queries() -> dict[str, list[Any]]:
    """Return predicates by table."""
    stated = [
        (name, query["predicate"])
        for name in golden_cases.tables()
        for query in golden_cases.expected(name)["queries"]
        if query["predicate"]
        and is_stated(query["predicate"])
        and not (query["snapshot_id"] or query["tag"] or query["branch"])
    ]
    found: dict[str, list[Any]] = {f"golden.{name}": [] for name in golden_cases.tables()}
    for name, predicate in some_of_each_kind(stated, itemgetter(1), _ONE_IN):
        found[f"golden.{name}"].append(predicate)
    return found


def test_golden_tables_have_the_same_rows(golden: GoldenWarehouse, tmp_path: Path) -> None:
    asked = some_golden_queries()
    external = ",".join(golden.allow_external())
    with serving(golden.root, log=tmp_path / "log", allow_external=external) as served:
        counts = compared(golden.root, served.port, asked, odd=20)

    assert {name for name, line in counts.items() if "unread" in line} == _UNREAD
    together = sum(counts.values(), Counter[str]())
    assert together["planned"] > 300, together
    assert together["fewer files"] > 200, together


def test_tables_with_global_indexes_have_all_rows_that_match(tmp_path: Path) -> None:
    warehouse = global_indexes.unpack(tmp_path)
    asked: dict[str, list[Any]] = {name.replace(".db/", "."): [] for name in global_indexes.tables()}
    with serving(warehouse, log=tmp_path / "log") as served:
        counts = compared(warehouse, served.port, asked, odd=60)

    together = sum(counts.values(), Counter[str]())
    assert together["fewer files"] > 50, counts
    assert together["fewer rows"] > 100, counts
    assert counts["pypaimon.updated"]["fewer rows"], counts


def test_planned_tables_are_used_in_every_way(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(SAMPLES, warehouse)
    shutil.copytree(SAMPLES / "demo.db" / "sessions", warehouse / "lake" / "2024" / "sessions")
    with serving(warehouse, log=tmp_path / "log") as served:
        run("pypaimon_uses.py", str(warehouse), f"http://127.0.0.1:{served.port}")


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Of a user with our client, beside a service of the samples."""
    with serving(SAMPLES) as served:
        yield {**os.environ, "URL": f"http://127.0.0.1:{served.port}", "PYTHONPATH": str(_ROOT / "client")}


def test_the_example_prints_what_stands_in_it(environment: dict[str, str]) -> None:
    command = [str(pypaimon_python()), str(EXAMPLES / "read_with_pypaimon.py")]

    assert output(command, environment) == written_output("read_with_pypaimon.py")


def test_cells_of_the_notebook_print_what_stands_below_them(environment: dict[str, str]) -> None:
    printed = notebooks.outputs(pypaimon_python(), "pypaimon.ipynb", environment)

    assert printed == notebooks.written_outputs("pypaimon.ipynb")
