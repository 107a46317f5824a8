"""Errors and logs name no endpoint, bucket, credential or absolute path, and no literal of a filter."""

import logging
import re
from pathlib import Path

import anyio
import httpx
import pytest

from app.api.http.headers import places_of
from app.api.http.problems import problem_of
from app.errors import CorruptIndexError, FileMissingError, PathNotAllowedError, StorageError
from app.main import create_app
from app.memory_budget import MemoryBudget
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import RetryPolicy, Warehouse
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse
from tests.storage.test_retry import KEY, SECRET, failing_store

TABLE = "/v1/main/databases/db/tables/t"


def test_a_failing_store_is_not_described_to_callers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.load(warehouses={"main": str(tmp_path)})
    with failing_store(403, "InvalidAccessKeyId") as (options, calls):
        warehouse = Warehouse("main", "s3://hidden-bucket/inside", options=options, retry=RetryPolicy(1))
        service = IndexService(
            {"main": warehouse}, cache_bytes=MemoryBudget.of(settings).caches, limits=settings.limits
        )
        with listening(create_app(settings, service), lifespan="on") as client:
            answers = [
                client.get("/v1/main/databases"),
                client.get("/v1/main/databases/db/tables"),
                client.get(TABLE),
                client.get(f"{TABLE}/snapshots"),
                client.post(f"{TABLE}/plan", json={}),
                client.post("/v1/main/index-files/inspect", json={"path": "db.db/t/bucket-0/a.index"}),
            ]
        hidden = (str(options["endpoint"]).removeprefix("http://"), "hidden-bucket", KEY, SECRET)

    assert calls
    assert {answer.status_code for answer in answers} == {503}
    told = [answer.text for answer in answers]
    # Only answers with a body have a code.
    assert all(re.search(r"PermissionError \((InvalidAccessKeyId, )?HTTP 403\)", text) for text in told)
    own = [
        record.getMessage() for record in caplog.records if record.name.startswith(("paimon", "app", "uvi"))
    ]
    assert not [text for text in told + own for each in hidden if each in text]


@pytest.mark.parametrize(
    "error",
    [
        FileMissingError("there is no file s3://bucket/a/b.index", path="s3://bucket/a/b.index"),
        StorageError("cannot read s3://bucket/a/b.index: OSError", path="s3://bucket/a/b.index"),
        PathNotAllowedError("s3://bucket/a/b.index lies outside", path="s3://bucket/a/b.index"),
        CorruptIndexError("no magic", offset=7).at("s3://bucket/a/b.index"),
    ],
)
def test_where_external_files_lie_is_not_told(error: Exception) -> None:
    problem = problem_of(error).to_json("id")

    assert problem["path"] == "b.index"
    assert "bucket" not in str(problem)


def test_the_path_in_the_warehouse_is_told() -> None:
    problem = problem_of(FileMissingError("there is no file db.db/t/x", path="db.db/t/x"))

    assert problem.members["path"] == "db.db/t/x"
    assert "db.db/t/x" in problem.detail


def _ask_storage() -> None:
    raise OSError("at https://storage.internal:9000")


LITERAL = 4711


def _read(literal: int) -> None:
    try:
        _ask_storage()
    except OSError as error:
        raise ValueError(f"literal {literal}") from error


def test_the_log_has_places_and_kinds_of_a_bug() -> None:
    with pytest.raises(ValueError, match="literal") as caught:
        _read(LITERAL)

    told = places_of(caught.value)

    assert told.startswith("ValueError\n")
    assert "OSError\n" in told
    assert "in _ask_storage" in told
    assert str(LITERAL) not in told


@pytest.mark.parametrize(("level", "has_texts"), [(logging.INFO, False), (logging.DEBUG, True)])
def test_texts_of_a_bug_are_in_the_log_of_debug_only(
    golden: GoldenWarehouse, caplog: pytest.LogCaptureFixture, level: int, has_texts: bool
) -> None:
    application = create_app(Settings.load(warehouses={"main": str(golden.root)}))

    @application.get("/bug")
    async def bug() -> None:
        literal = "4711"
        raise ValueError(f"literal {literal}")

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/bug")

    caplog.set_level(level)
    response = anyio.run(ask)

    assert response.status_code == 500
    assert response.json()["type"] == "urn:paimon-index:error:internal"
    assert "4711" not in response.text
    assert "GET /bug: ValueError" in caplog.text
    assert ("literal 4711" in caplog.text) == has_texts
