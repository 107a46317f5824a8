"""Every storage call of a plan, of deletions, of a lookup and of a commit fails once, in every way.

The answer is right, or an error of the contract, or a plan that keeps more and says so; and the next one is
right. A commit leaves the table as it was or as it should be.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import PaimonIndexError, RequestError, SettingsError, UncertainCommitError
from app.planning.plan.answers import Plan
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import DeletionsRequest, LookupRequest, PlanRequest
from app.planning.service import IndexService
from app.storage import Warehouse
from app.storage.disk.disk_tier import DiskTier
from app.table.commits import Changes, CommitKind
from app.work import cancellable
from tests.copied_tables import WritableTable, files_below, open_table
from tests.examples import is_thorough
from tests.failing_calls import Calls, Failure, failing_disk, failing_warehouse
from tests.golden_cases import GoldenWarehouse, expected
from tests.tables import golden_ref, open_service

STEP = 1 if is_thorough() else 15
"""Of so many calls one fails in `make test`; in `.ci/run` every one does."""


def service_of(warehouse: Warehouse) -> IndexService:
    return IndexService({"golden": warehouse}, cache_bytes=CacheBytes(), limits=Limits())


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is asked of a table, and its answer in a form that can be compared."""

    table: str
    ask: Callable[[IndexService], Any]


def planned(table: str, written: str) -> Question:
    return Question(table, lambda service: service.plan(golden_ref(table), PlanRequest(filter=written)))


def _lookup(service: IndexService) -> Any:
    written = expected("dyn_bucket")["dynamic_bucket"]["keys"][0]
    asked = LookupRequest(partition=written["partition"], keys=(written["key"],))
    return service.lookup(golden_ref("dyn_bucket"), asked).buckets


def _deletions(service: IndexService) -> Any:
    found = service.deletions(golden_ref("append_dv32"), DeletionsRequest()).deletions
    return [(each.file_name, sorted(each.positions or ())) for each in found]


def _key_of_dynamic_bucket() -> str:
    return " AND ".join(
        f"{name} = {value!r}"
        for name, value in expected("dyn_bucket")["dynamic_bucket"]["keys"][0]["key"].items()
    )


QUESTIONS = {
    "plan by side files": planned("append_sidecar", "rank_no = 4956"),
    "plan by hash indexes": Question(
        "dyn_bucket",
        lambda service: service.plan(golden_ref("dyn_bucket"), PlanRequest(filter=_key_of_dynamic_bucket())),
    ),
    "plan with deletion vectors": Question(
        "append_dv32", lambda service: service.plan(golden_ref("append_dv32"), PlanRequest())
    ),
    "deletions": Question("append_dv32", _deletions),
    "lookup": Question("dyn_bucket", _lookup),
}


def rows_of(plan: Plan) -> dict[str, Any]:
    return {each.file_name: None if each.selection is None else set(each.selection) for each in plan.files}


def comparable(answer: Any) -> Any:
    return rows_of(answer) if isinstance(answer, Plan) else answer


def check(answer: Any, right: Any) -> None:
    """Check that an answer is right, or a plan that keeps more, and says so."""
    if not isinstance(answer, Plan) or not answer.warnings:
        assert comparable(answer) == right
        return
    found = rows_of(answer)
    for name, rows in right.items():
        assert name in found
        assert found[name] is None or (rows is not None and found[name] >= rows)
    assert found == right or not answer.summary.complete


def outcome(work: Callable[[], Any], calls: Calls) -> tuple[PaimonIndexError | None, Any]:
    """Return the error of the contract, or what came of it; the caller goes away once a call hangs."""
    try:
        with cancellable(calls.caller):
            return None, work()
    except PaimonIndexError as error:
        return error, None


def calls_of(root: Path, question: Question) -> list[str]:
    calls = Calls()
    with closing(service_of(failing_warehouse(root, calls))) as service:
        question.ask(service)
    return calls.made


@pytest.fixture
def tables(golden: GoldenWarehouse, tmp_path: Path) -> Path:
    for table in ("append_sidecar", "append_dv32", "dyn_bucket"):
        golden.copy(table, tmp_path)
    return tmp_path


@pytest.mark.parametrize("failure", [each for each in Failure if each is not Failure.LOST])
@pytest.mark.parametrize("name", QUESTIONS)
def test_whichever_call_fails_no_answer_is_wrong(tables: Path, name: str, failure: Failure) -> None:
    question = QUESTIONS[name]
    with closing(open_service(tables)) as service:
        right = comparable(question.ask(service))
    made = calls_of(tables, question)
    assert len(made) > 5

    for at in range(failure.value % STEP, len(made), STEP):
        call = made[at]
        if failure is Failure.GARBAGE and "/index/" in call and "dyn_bucket" in call:
            # Any bytes are hashes: the format has neither mark nor checksum.
            continue
        calls = Calls(at, failure)
        with closing(service_of(failing_warehouse(tables, calls))) as service:
            error, answer = outcome(lambda: question.ask(service), calls)
            assert not isinstance(error, RequestError | SettingsError), (calls.failed, error)
            if error is None:
                check(answer, right)
            # What was taken for a damaged index stays so for a while: its files are kept, which is said.
            check(question.ask(service), right)
            service.caches.clear()
            assert comparable(question.ask(service)) == right, calls.failed


def added(table: WritableTable) -> Changes:
    like = table.entries()[0]
    return Changes(CommitKind.APPEND, (replace(like, file=replace(like.file, file_name="data-new.parquet")),))


@pytest.mark.parametrize("failure", Failure)
def test_whichever_call_of_a_commit_fails_the_table_is_as_it_was_or_as_it_should_be(
    golden: GoldenWarehouse, tmp_path: Path, failure: Failure
) -> None:
    name = "append_dv32"

    def commit(root: Path, calls: Calls) -> int:
        table = WritableTable.of(failing_warehouse(root, calls), name)
        # What is to be committed is known before.
        return table.committer.commit(added(open_table(root, name)))

    def copy(number: int) -> Path:
        root = tmp_path / str(number)
        golden.copy(name, root)
        return root

    def names(root: Path) -> list[str]:
        return sorted(each.file.file_name for each in open_table(root, name).entries())

    whole, before = Calls(), names(copy(-2))
    commit(copy(-1), whole)
    after = sorted([*before, "data-new.parquet"])

    for at in range(failure.value % STEP, len(whole.made), STEP):
        root, calls = copy(at), Calls(at, failure)
        there = files_below(root)
        error, _ = outcome(lambda: commit(root, calls), calls)  # noqa: B023 - called here
        match error:
            case None:
                assert names(root) == after, calls.failed
            case UncertainCommitError():
                assert names(root) in (before, after), calls.failed
            case _:
                assert names(root) == before, (calls.failed, error)
                # What nothing refers to is removed, unless nobody waits for that, or knows of it.
                assert failure in (Failure.HANG, Failure.LOST) or files_below(root) == there
        if names(root) == before:
            commit(root, Calls())
            assert names(root) == after
        shutil.rmtree(root)


@pytest.mark.parametrize("is_filled", [False, True])
def test_whichever_call_of_the_disk_cache_fails_nothing_is_wrong(
    tables: Path, tmp_path: Path, is_filled: bool
) -> None:
    question = QUESTIONS["plan by side files"]
    with closing(open_service(tables)) as service:
        right = comparable(question.ask(service))

    def opened(directory: Path) -> IndexService:
        return open_service(tables, disk=DiskTier(directory, 1 << 24))

    def ask(directory: Path, fails_at: int | None) -> int:
        if is_filled:
            with closing(opened(directory)) as before:
                question.ask(before)
        with failing_disk(directory, fails_at) as calls, closing(opened(directory)) as service:
            assert comparable(question.ask(service)) == right, calls.failed
        with closing(opened(directory)) as after:
            assert comparable(question.ask(after)) == right, calls.failed
        return len(calls.made)

    count = ask(tmp_path / "disk", None)
    assert count > 2
    for at in range(0, count, STEP):
        ask(tmp_path / f"disk {at}", at)
