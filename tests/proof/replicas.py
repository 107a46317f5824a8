"""Two servers over the same warehouses, each with caches of its own, asked over HTTP in every format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import httpx
import orjson

from app.main import create_app
from app.settings import Settings
from paimon_index import Client
from tests.api.conftest import listening
from tests.golden_cases import DATABASE

WAREHOUSES: Final = ("engine", "any")
"""One that the Java engine alone writes to, and one that anybody does."""

Named: TypeAlias = "dict[str, list[int] | None]"
"""Positions by the names of files; None for all of them."""


def warehouse_of(root: Path, *, engine: bool) -> Path:
    return root / WAREHOUSES[0 if engine else 1]


@dataclass(frozen=True, slots=True)
class Replicas:
    """The servers.

    Attributes:
        http: a client of each.
        clients: our own client of each.
        asked: how many requests each format had.
    """

    http: list[httpx.Client]
    clients: list[Client]
    asked: dict[str, int] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def serving(cls, root: Path) -> Iterator[Replicas]:
        warehouses = {name: str(root / name) for name in WAREHOUSES}
        for path in warehouses.values():
            Path(path).mkdir(exist_ok=True)
        settings: dict[str, Any] = {
            "warehouses": warehouses,
            "engine_writes_only": WAREHOUSES[:1],
        }
        with ExitStack() as stack:
            http, clients = [], []
            for own in ({}, {"memory_bytes": 4 << 30, "disk_cache": str(root / "disk of a replica")}):
                application = create_app(Settings.load(**settings, **own))
                started = stack.enter_context(listening(application, lifespan="on"))
                http.append(started)
                clients.append(stack.enter_context(Client(str(started.base_url))))
            yield cls(http, clients)

    def plan(self, rng: Random, warehouse: str, table: str, body: dict[str, Any]) -> Named:
        """Return the files of a plan in any format, from any server; pages come from both."""
        way = rng.choice(["pages", "pages", "ndjson", "arrow"])
        self.asked[way] = self.asked.get(way, 0) + 1
        url = f"/v1/{warehouse}/databases/{DATABASE}/tables/{table}/plan"
        body = {"selection": "positions", **body}
        if way == "arrow":
            with rng.choice(self.clients).plan(f"{warehouse}.{DATABASE}.{table}", **body) as plan:
                return {
                    each.file_name: None if each.selection is None else each.selection.positions().tolist()
                    for each in plan
                }
        if way == "ndjson":
            answer = rng.choice(self.http).post(url, json=body, headers={"Accept": "application/x-ndjson"})
            answer.raise_for_status()
            lines = [orjson.loads(line) for line in answer.content.splitlines()]
            return _named([line for line in lines if "file_name" in line])
        found: list[dict[str, Any]] = []
        token: dict[str, Any] = {"page_size": rng.choice([1, 2, 7, 1000])}
        while True:
            answer = rng.choice(self.http).post(url, json={**body, **token})
            answer.raise_for_status()
            page = answer.json()
            found += page["files"]
            if page["next_page_token"] is None:
                break
            token["page_token"] = page["next_page_token"]
        named = _named(found)
        assert len(named) == len(found), "a file is on two pages"
        return named


def _named(files: list[dict[str, Any]]) -> Named:
    return {each["file_name"]: each.get("selection") for each in files}
