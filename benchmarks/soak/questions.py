"""What the callers of a soak ask, and answers in a form that can be compared."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow.ipc

from tests.golden_cases import DATABASE, expected

if TYPE_CHECKING:
    import httpx

TABLES: Final = (
    "append_sidecar",
    "append_dv32",
    "append_dv64",
    "append_partitioned",
    "bucketed_dv",
    "codec_null",
    "dyn_bucket",
    "manifest_merge",
    "pk_dv",
    "pk_merge",
    "row_tracking",
)
"""Golden tables with one schema, so that a snapshot means the same when it is the latest and later."""

WAREHOUSES: Final = ("main", "second", "third")
"""Names of the warehouses; all have the same tables."""

_SELECTIONS: Final = ("none", "count", "bitmap", "ranges", "positions")
_KEYS: Final = 20


class Kind(StrEnum):
    """What is asked for; the values are names of endpoints."""

    PLAN = "plan"
    LINES = "plan as NDJSON"
    ARROW = "plan as Arrow"
    DELETIONS = "deletions"
    LOOKUP = "buckets/lookup"

    @property
    def endpoint(self) -> str:
        """The last part of the path."""
        return self.partition(" ")[0]

    @property
    def media_type(self) -> str:
        """What the answer is to come as."""
        match self:
            case Kind.LINES:
                return "application/x-ndjson"
            case Kind.ARROW:
                return "application/vnd.apache.arrow.stream"
            case _:
                return "application/json"


@dataclass(frozen=True, slots=True)
class Question:
    """One request.

    Attributes:
        kind: what is asked for.
        warehouse: where.
        table: the copy of a golden table that is asked about.
        body: JSON.
    """

    kind: Kind
    warehouse: str
    table: str
    body: str

    @property
    def path(self) -> str:
        """Where it is posted to."""
        return f"/v1/{self.warehouse}/databases/{DATABASE}/tables/{self.table}/{self.kind.endpoint}"

    def at(self, snapshot_id: int) -> Question:
        """Return the same of one snapshot rather than the latest."""
        return replace(self, body=json.dumps({**json.loads(self.body), "snapshot_id": snapshot_id}))

    def post(self, client: httpx.Client) -> httpx.Response:
        """Ask it."""
        headers = {"Accept": self.kind.media_type, "Content-Type": "application/json"}
        return client.post(self.path, content=self.body, headers=headers)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, as far as it does not depend on when.

    Attributes:
        snapshot_id: what it is about.
        files: data files, or entries of another kind, each as JSON; in their order.
        warnings: what could not be read, and is kept therefore.
    """

    snapshot_id: int | None
    files: tuple[str, ...]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, kind: Kind, content: bytes) -> Answer:
        """Read an answer of this kind.

        Raises ValueError if it is not whole.
        """
        told: dict[str, Any]
        match kind:
            case Kind.LINES:
                *entries, told = [json.loads(line) for line in content.splitlines()]
                if "summary" not in told:
                    raise ValueError("the last line has no summary")
            case Kind.ARROW:
                table = pyarrow.ipc.open_stream(content).read_all()
                metadata = table.schema.metadata or {}
                told = {name.decode(): _read(text) for name, text in metadata.items()}
                entries = table.to_pylist()
            case _:
                told = json.loads(content)
                members = {Kind.PLAN: "files", Kind.DELETIONS: "deletions", Kind.LOOKUP: "buckets"}
                entries = told[members[kind]]
        return cls(
            told.get("snapshot_id"),
            tuple(json.dumps(entry, sort_keys=True, default=repr) for entry in entries),
            tuple(told.get("warnings", ())),
        )

    def names(self) -> set[str]:
        """Return the data files that are named."""
        return {str(json.loads(entry).get("path")) for entry in self.files}


def _read(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


def ask_about(tables: Sequence[str], chance: random.Random) -> Question:
    """Return a question about one of the tables, whose names are those of golden tables and a number."""
    table = chance.choice(tables)
    document = expected(table.rpartition("-")[0])
    kinds = [Kind.PLAN, Kind.PLAN, Kind.LINES, Kind.ARROW, Kind.DELETIONS]
    if "dynamic_bucket" in document:
        kinds.append(Kind.LOOKUP)
    kind = chance.choice(kinds)
    body: dict[str, Any] = {}
    match kind:
        case Kind.LOOKUP:
            keys = document["dynamic_bucket"]["keys"]
            partition = chance.choice(keys)["partition"]
            asked = [each["hash"] for each in keys if each["partition"] == partition][:_KEYS]
            body = {"partition": partition, "hashes": asked}
        case Kind.DELETIONS:
            body = {"page_size": 1_000}
        case _:
            sql = chance.choice(document["queries"])["filter_sql"]
            body = {"selection": chance.choice(_SELECTIONS)}
            body |= {} if sql is None else {"filter": sql}
    return Question(kind, chance.choice(WAREHOUSES), table, json.dumps(body))
