"""Large plans come in tasks, whose tokens any replica can go on with."""

import base64
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
import pytest
from pyiceberg.catalog.rest import RestCatalog

from app.api.http.strict_json import write_json
from app.errors import NotFoundError, SnapshotExpiredError
from app.iceberg.catalog import IcebergCatalog
from app.iceberg.plan_tokens import LONGEST_ID, PlanQuestion, PlanToken, _digest, write_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import TableRef
from app.types.digest import DIGEST_BYTES
from benchmarks.events import DATABASE, FIRST_DAY, TABLE
from benchmarks.manifest_records import file_name, lowest_number
from benchmarks.services import NO_INDEX, WAREHOUSE, open_service
from benchmarks.synthetic import table_directory, write_manifest, write_snapshot, write_table
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.specification import validate_answer

FILES = 7_000
REF = TableRef(WAREHOUSE, DATABASE, TABLE)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("many") / "warehouse"
    write_table(directory, NO_INDEX, FILES)
    return directory


@contextmanager
def replica(warehouse: Path) -> Iterator[IcebergCatalog]:
    service = open_service(warehouse)
    yield IcebergCatalog(service, Limits(), budget_ms=60_000)
    service.close()


def read(answer: Any) -> Any:
    return json.loads(write_json(answer))


def paths(answer: Any) -> list[str]:
    return [task["data-file"]["file-path"] for task in answer["file-scan-tasks"]]


def test_the_parts_of_a_plan_are_the_whole_plan_on_every_replica(warehouse: Path) -> None:
    with replica(warehouse) as one:
        first = read(one.plan(REF, PlanQuestion()))
    found = paths(first)
    assert len(first["plan-tasks"]) >= 2

    with replica(warehouse) as other:
        for task in first["plan-tasks"]:
            part = read(other.fetch_tasks(REF, task))
            assert len(write_json(part)) < 1.1 * (1 << 20)
            assert part["plan-tasks"] == []
            found += paths(part)

    assert len(found) == len(set(found)) == FILES


def test_a_long_filter_stands_in_one_token_at_a_time(warehouse: Path) -> None:
    days = [(FIRST_DAY.toordinal() - 719_163) + day for day in range(70)]
    numbers = {"type": "not-in", "term": "c3", "values": [str(-7919 * each) for each in range(30_000)]}
    test: Any = {"type": "and", "left": {"type": "in", "term": "day", "values": days}, "right": numbers}

    with replica(warehouse) as catalog:
        answer = read(catalog.plan(REF, PlanQuestion(filter=write_filter(test))))
        assert len(answer["plan-id"]) <= LONGEST_ID
        assert len(answer["plan-tasks"]) == 1
        (again,) = read(catalog.fetch_tasks(REF, answer["plan-tasks"][0]))["plan-tasks"]
        assert again != answer["plan-tasks"][0]


def test_a_part_that_is_filtered_has_the_files_that_are_left(warehouse: Path) -> None:
    test: Any = {"type": "lt", "term": "c1", "value": 500_000}
    with replica(warehouse) as catalog:
        first = read(catalog.plan(REF, PlanQuestion(filter=write_filter(test))))
        rest = [path for task in first["plan-tasks"] for path in paths(read(catalog.fetch_tasks(REF, task)))]

    assert 0 < len(paths(first) + rest) < FILES
    assert all(task["residual-filter"] in (True, test) for task in first["file-scan-tasks"])


def test_a_token_is_of_its_table_alone(warehouse: Path) -> None:
    with replica(warehouse) as catalog:
        plan_id = read(catalog.plan(REF, PlanQuestion()))["plan-id"]
        with pytest.raises(NotFoundError, match="plan again"):
            PlanToken.read(plan_id, TableRef(WAREHOUSE, DATABASE, "other"))
        damaged = ("A" if plan_id[0] != "A" else "B") + plan_id[1:]
        with pytest.raises(NotFoundError, match="plan again"):
            PlanToken.read(damaged, REF)


def forged(content: bytes, table: TableRef) -> str:
    """Return a token that anybody could make who has read what the service is made of."""
    packed = zlib.compress(content)
    return base64.urlsafe_b64encode(_digest(packed, table) + packed).decode()


@pytest.mark.parametrize(
    "members",
    [{"snapshot": "1/../../x"}, {"snapshot": -1}, {"schema": None}, {"begin": 1.5}, {"question": 5}],
)
def test_a_token_that_is_forged_with_its_digest_is_still_a_request(members: Any) -> None:
    honest = PlanToken(PlanQuestion(), 1, 0, 0, None, "x")
    text = forged(json.dumps({**asdict(honest), **members}).encode(), REF)

    with pytest.raises(NotFoundError, match="did not make this plan token"):
        PlanToken.read(text, REF)
    assert PlanToken.read(honest.write(REF), REF) == honest


DEEP = "".join(['{"type":"not","child":'] * 5_000 + ["true"] + ["}"] * 5_000)
LITERAL = '{"type":"eq","term":"grade","value":%s}'


@pytest.mark.parametrize(
    ("question", "others"),
    [
        ({"filter": "no JSON"}, {}),
        ({"filter": ""}, {}),
        ({"filter": DEEP}, {}),
        ({"filter": LITERAL % ("1" * 1_000_000)}, {}),
        ({"filter": LITERAL % "NaN"}, {}),
        ({"filter": LITERAL % "1e999"}, {}),
        ({"filter": LITERAL.replace("grade", "memo") % '"\\ud800"'}, {}),
        ({"filter": '{"type":"eq","term":"no","value":1}'}, {}),
        ({"filter": "5"}, {}),
        ({"filter": '"text"'}, {}),
        ({"filter": '{"a":1,"a":2}'}, {}),
        ({"snapshot_id": 99}, {}),
        ({"snapshot_id": 1, "start_snapshot_id": 99}, {}),
        ({"start_snapshot_id": (1 << 63) - 1}, {}),
        ({"statistics": ["no", "grade"] * 2_000}, {"begin": 1, "end": 0}),
        ({"statistics": [["grade"]]}, {}),
        ({"min_rows": -1}, {}),
        ({"case_sensitive": "yes"}, {}),
        ({}, {"begin": (1 << 63) - 1}),
        ({}, {"end": 1 << 63}),
        ({}, {"schema": 77}),
        ({}, {"snapshot": 77}),
        ({}, {"tag": "../../../x"}),
        ({}, {"tag": "/etc/passwd"}),
        ({}, {"tag": "a" * 5_000}),
        ({}, {"tag": "\0"}),
        ({}, {"identity": None}),
        ({}, {"question": None}),
        ({}, {"more": 1}),
    ],
)
def test_a_forged_token_is_the_caller_s_mistake(iceberg: httpx.Client, question: Any, others: Any) -> None:
    path = "main/namespaces/golden/tables/append_sidecar"
    table = TableRef("main", "golden", "append_sidecar")
    honest = iceberg.post(f"{path}/plan", json={}).json()["plan-id"]
    members = json.loads(zlib.decompress(base64.urlsafe_b64decode(honest)[DIGEST_BYTES:]))
    members["question"] |= question
    token = forged(json.dumps({**members, **others}).encode(), table)
    by_id = f"{path}/plan/{token}"

    answers = [
        iceberg.post(f"{path}/tasks", json={"plan-task": token}),
        iceberg.get(by_id),
        iceberg.delete(by_id),
    ]

    for answer in answers:
        # Some are questions that a client could have asked.
        assert answer.status_code in (200, 204, 400, 404), answer.text
        if answer.is_error:
            assert answer.json()["error"]["code"] == answer.status_code


@pytest.mark.parametrize("content", [b"", b"x", b"null", b"[]", b"\xff", b"{" * 100_000])
def test_what_is_no_token_is_no_plan(content: bytes) -> None:
    for text in (
        forged(content, REF),
        forged(content, REF)[:-8],
        content.decode("latin-1"),
        "é",
        "a" * 4_097,
    ):
        with pytest.raises(NotFoundError, match="plan again"):
            PlanToken.read(text, REF, LONGEST_ID)


def test_a_token_that_is_too_long_or_of_nobody_is_not_unpacked() -> None:
    bomb = zlib.compress(b" " * (8 << 20))
    of_nobody = base64.urlsafe_b64encode(bytes(DIGEST_BYTES) + bomb).decode()
    of_somebody = base64.urlsafe_b64encode(_digest(bomb, REF) + bomb).decode()
    assert len(of_somebody) > LONGEST_ID

    tracemalloc.start()
    for text, longest in ((of_nobody, None), (of_somebody, LONGEST_ID)):
        with pytest.raises(NotFoundError, match="no such plan"):
            PlanToken.read(text, REF, longest)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_token_that_ends_early_is_no_plan() -> None:
    packed = zlib.compress(b"{" * 1_000)[:-1]

    with pytest.raises(NotFoundError, match="did not make this plan token"):
        PlanToken.read(base64.urlsafe_b64encode(_digest(packed, REF) + packed).decode(), REF)


def test_a_plan_goes_on_with_its_snapshot(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    first = write_table(warehouse, NO_INDEX, 100)
    with replica(warehouse) as catalog:
        before = read(catalog.plan(REF, PlanQuestion()))
        more = write_manifest(warehouse, NO_INDEX, 100, 200)
        write_snapshot(table_directory(warehouse), 2, first, [more], rows=200 * NO_INDEX.rows)
        after = read(catalog.plan(REF, PlanQuestion()))
        again = read(catalog.fetch_plan(REF, before["plan-id"]))

    assert paths(again) == paths(before) != paths(after)


def test_without_its_snapshot_a_plan_is_gone(tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse", NO_INDEX, 100)
    with replica(tmp_path / "warehouse") as catalog:
        plan_id = read(catalog.plan(REF, PlanQuestion()))["plan-id"]
        snapshot = table_directory(tmp_path / "warehouse") / "snapshot"
        for each in snapshot.iterdir():
            each.unlink()

        with pytest.raises((NotFoundError, SnapshotExpiredError)):
            catalog.fetch_plan(REF, plan_id)


MANY_FILES: Final = 100_000
MOST_BYTES: Final = 1.1 * (1 << 20)
ROUTE: Final = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
BOUND: Final = 500_000


@pytest.fixture(scope="module")
def replicas(
    tmp_path_factory: pytest.TempPathFactory, serve_iceberg: ServeIceberg
) -> Iterator[list[httpx.Client]]:
    warehouse = tmp_path_factory.mktemp("many") / "warehouse"
    write_table(warehouse, NO_INDEX, MANY_FILES)
    served = {"main": str(warehouse)}
    with serve_iceberg(warehouses=served) as one, serve_iceberg(warehouses=served) as other:
        yield [one, other]


@pytest.mark.long
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

    assert len(found) == MANY_FILES
    assert {each.rpartition("/")[2] for each in found} == set(map(file_name, range(MANY_FILES)))


@pytest.mark.long
def test_pyiceberg_plans_all_of_it_or_what_a_filter_leaves(replicas: list[httpx.Client]) -> None:
    table = RestCatalog("many", uri=f"{replicas[0].base_url}/iceberg").load_table(f"{DATABASE}.{TABLE}")

    def planned(**wanted: str) -> set[str]:
        tasks = table.scan(**wanted).plan_files()
        return {task.file.file_path.rpartition("/")[2] for task in tasks}

    expected = np.flatnonzero(lowest_number(NO_INDEX, 1, np.arange(MANY_FILES)) < BOUND).tolist()
    assert planned() == set(map(file_name, range(MANY_FILES)))
    assert planned(row_filter=f"c1 < {BOUND}") == set(map(file_name, expected))
    assert 0 < len(expected) < MANY_FILES
