"""A table of 100,000 files, planned in tasks over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Final

import httpx
import numpy as np
import pytest
from pyiceberg.catalog.rest import RestCatalog

from benchmarks.events import DATABASE, TABLE
from benchmarks.manifest_records import file_name, lowest_number
from benchmarks.services import NO_INDEX
from benchmarks.synthetic import write_table
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.specification import validate_answer

pytestmark = pytest.mark.long

FILES: Final = 100_000
MOST_BYTES: Final = 1.1 * (1 << 20)
ROUTE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
BOUND: Final = 500_000


@pytest.fixture(scope="module")
def replicas(
    tmp_path_factory: pytest.TempPathFactory, serve_iceberg: ServeIceberg
) -> Iterator[list[httpx.Client]]:
    warehouse = tmp_path_factory.mktemp("many") / "warehouse"
    write_table(warehouse, NO_INDEX, FILES)
    served = {"main": str(warehouse)}
    with serve_iceberg(warehouses=served) as one, serve_iceberg(warehouses=served) as other:
        yield [one, other]


def test_each_file_is_in_one_task_whichever_replica_is_asked(replicas: list[httpx.Client]) -> None:
    path = f"/iceberg/v1/main/namespaces/{DATABASE}/tables/{TABLE}"
    turns = cycle(replicas)
    answer = next(turns).post(f"{path}/plan", json={})
    validate_answer(answer.json(), "POST", f"{ROUTE}/plan", answer.status_code)
    pending, found = list(answer.json()["plan-tasks"]), []
    assert len(pending) > 20
    while True:
        assert len(answer.content) < MOST_BYTES
        found += [task["data-file"]["file-path"] for task in answer.json()["file-scan-tasks"]]
        if not pending:
            break
        answer = next(turns).post(f"{path}/tasks", json={"plan-task": pending.pop()})
        assert answer.status_code == 200, answer.text
        pending += answer.json()["plan-tasks"]
    validate_answer(answer.json(), "POST", f"{ROUTE}/tasks", answer.status_code)

    assert len(found) == FILES
    assert {each.rpartition("/")[2] for each in found} == set(map(file_name, range(FILES)))


def test_pyiceberg_plans_all_of_it_or_what_a_filter_leaves(replicas: list[httpx.Client]) -> None:
    table = RestCatalog("many", uri=f"{replicas[0].base_url}/iceberg").load_table(f"{DATABASE}.{TABLE}")

    def planned(**wanted: str) -> set[str]:
        tasks = table.scan(**wanted).plan_files()
        return {task.file.file_path.rpartition("/")[2] for task in tasks}

    expected = np.flatnonzero(lowest_number(NO_INDEX, 1, np.arange(FILES)) < BOUND).tolist()
    assert planned() == set(map(file_name, range(FILES)))
    assert planned(row_filter=f"c1 < {BOUND}") == set(map(file_name, expected))
    assert 0 < len(expected) < FILES
