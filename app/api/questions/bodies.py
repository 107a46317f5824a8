"""What callers send: the JSON bodies of the contract, and the planner's requests made of them.

Types are taken strictly (``"7"`` is no number, 1.0 no integer), a null is as good as an absent member, and a
member that nobody knows is refused, since a misspelt one would otherwise change the question in silence.
Literals, keys and partitions are read by the planner, which knows the types of their columns.

:class:`JsonBody` receives them: bounded in bytes and in time, strict in form, documented in OpenAPI.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from starlette.requests import Request

from app.api.http.faults import explain_faults, refuse_unknown
from app.api.http.problems import ProblemError, problem_of, problem_of_status
from app.api.http.strict_json import memory_of_json, read_json
from app.api.runtime import runtime_of
from app.errors import FilterError, MemoryShortError, RequestError
from app.planning.request.requests import AssignRequest, DeletionsRequest, LookupRequest, SnapshotSelector
from app.predicates.json_reader import NO_ARROW
from app.predicates.unbound import DEFAULT_LIMITS
from app.types.session_zone import session_zone
from app.work.ledger import LEDGER, Claim

_INT32 = 1 << 31
_LONG_MAX = (1 << 63) - 1


def _is_zone(name: str) -> str:
    session_zone(name)
    return name


Count = Annotated[int, Field(ge=0, le=_LONG_MAX)]
Name = Annotated[str, Field(min_length=1)]
Hash = Annotated[int, Field(ge=-_INT32, lt=_INT32)]
Channels = Annotated[int, Field(ge=1, lt=_INT32)]
FileNames = Annotated[list[str], Field(fail_fast=True)]
TypedValues = dict[str, Any]
_HASH_BYTES = 240
"""What a hash takes with its answer, as measured with 2,800,000 of them."""
_KEY_BYTES = 560
"""The same of a key, whose values are an object."""
_FEW_BYTES = 4 << 20
"""So little needs no claim: the number of requests bounds it."""
Written = TypeVar("Written")


def _of_allowed_size(written: Written) -> Written:
    DEFAULT_LIMITS.check_size(written)
    return written


OF_ALLOWED_SIZE: Final = AfterValidator(_of_allowed_size)
"""Refuses filters that are too long, before they are hashed."""
Filter = Annotated[
    str | dict[str, Any],
    OF_ALLOWED_SIZE,
    Field(
        description="Spark SQL text as after WHERE, or the JSON form of a Paimon predicate.",
        examples=["dt = '2025-08-01' AND score BETWEEN 60 AND 80"],
    ),
]
TimeZone = Annotated[
    str,
    AfterValidator(_is_zone),
    Field(
        description="The time zone of the session, as spark.sql.session.timeZone has it: dates and "
        "timestamps without a zone mean what they mean there. The release of the reader's rules may follow. "
        "Absent: the service's default.",
        examples=["America/New_York", "America/Vancouver@2025a", "+05:30"],
    ),
]
Alias = Annotated[
    str,
    Field(
        min_length=1,
        description="What the query calls the table: its columns may be qualified by it in the filter and in "
        "order_by, and then, as in Spark, not by the table's own name.",
        examples=["e"],
    ),
]
SelectionName = Literal["none", "count", "bitmap", "ranges", "positions"]


class Body(BaseModel):
    """A JSON object; null stands for an absent member."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    example: ClassVar[Mapping[str, object]] = {}
    """What a caller may send."""

    @classmethod
    def example_text(cls) -> str:
        """The example as JSON."""
        return json.dumps(cls.example)

    @classmethod
    def read(cls, members: object) -> Self:
        """The body that a JSON value stands for.

        Raises RequestError: it does not; the message names the members at fault.
        """
        if not isinstance(members, dict):
            raise RequestError(f"the body is not a JSON object: send one such as {cls.example_text()}")
        try:
            return cls.model_validate(members)
        except ValidationError as error:
            faults = error.errors(include_url=False)
            raise RequestError(explain_faults(faults, cls.model_fields)) from error

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, members: object) -> object:
        if not isinstance(members, dict):
            return members
        if cls.model_config.get("extra") == "forbid":
            refuse_unknown(cls, members, "member" if cls.model_config.get("strict") else "parameter")
        return {name: value for name, value in members.items() if value is not None}


def _refuse_arrow(listed: object) -> object:
    if isinstance(listed, dict) and "$arrow" in listed:
        raise FilterError(NO_ARROW)
    return listed


InLists = Annotated[
    dict[str, Annotated[list[Any], BeforeValidator(_refuse_arrow)]],
    Field(
        description="Lists of values by column: a row of the answer satisfies the filter, and has one of the "
        "values of each list in the list's column, as by IN. For lists that are long, such as the keys of a "
        "join's small side.",
        examples=[{"id": [1, 2, 3]}],
    ),
]


class VersionedBody(Body):
    """A body about one version of a table: at most one of the first three; none of them is the latest."""

    snapshot_id: Count | None = None
    tag: Name | None = None
    timestamp_millis: Count | None = Field(
        None, description="Milliseconds since 1970-01-01 UTC.", examples=[1754006400000]
    )
    branch: Name | None = None
    max_staleness_ms: Count | None = Field(
        None,
        description="The answer may be about the snapshot that was the latest so many milliseconds ago; then "
        "storage is not asked for a newer one. 0 is the latest now. Absent: the service's default.",
    )

    @model_validator(mode="after")
    def _one_version(self) -> Self:
        if sum(value is not None for value in (self.snapshot_id, self.tag, self.timestamp_millis)) > 1:
            raise ValueError("at most one of snapshot_id, tag and timestamp_millis names the version")
        return self

    def selector(self) -> SnapshotSelector:
        """The version that is asked for."""
        return SnapshotSelector(
            self.snapshot_id,
            self.tag,
            self.timestamp_millis,
            self.branch,
            max_staleness_ms=self.max_staleness_ms,
        )


class PagedBody(VersionedBody):
    """A body whose answer comes in pages."""

    page_size: Annotated[int, Field(ge=1)] | None = None
    page_token: str | None = None


class DeletionsBody(PagedBody):
    """Which rows of which files are deleted?"""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "encoding": "positions"}

    partition: TypedValues | None = Field(
        None, description="Values by partition column.", examples=[{"dt": "2025-08-01"}]
    )
    files: FileNames | None = Field(None, description="Data file names; absent: every file with a vector.")
    encoding: Literal["positions", "ranges", "bitmap", "count"] = "positions"
    time_zone: TimeZone | None = None

    def to_request(self) -> DeletionsRequest:
        """The planner's form."""
        files = None if self.files is None else tuple(self.files)
        return DeletionsRequest(
            self.selector(), self.partition, files, self.encoding == "count", self.time_zone
        )


class LookupBody(VersionedBody):
    """Which buckets do these keys live in?"""

    example: ClassVar = {"partition": {"dt": "2025-08-01"}, "keys": [{"id": 1}, {"id": 2}]}

    partition: TypedValues | None = Field(
        None, description="Values by partition column.", examples=[{"dt": "2025-08-01"}]
    )
    keys: Annotated[list[TypedValues], Field(fail_fast=True)] | None = Field(
        None,
        description="Objects over the primary key; partition columns may be left out.",
        examples=[[{"id": 1}, {"id": 2}]],
    )
    hashes: Annotated[list[Hash], Field(fail_fast=True)] | None = None
    time_zone: TimeZone | None = None

    @model_validator(mode="after")
    def _keys_or_hashes(self) -> Self:
        if (self.keys is None) == (self.hashes is None):
            raise ValueError("expected keys, or the hashes of keys, and not both")
        return self

    def claimed(self, most: int) -> AbstractContextManager[object]:
        """A claim on what many keys take while they are looked up, and their answer with them.

        ``most``: bytes of all large bodies. Errors as of :meth:`app.work.ledger.Ledger.claim`.
        """
        hashes, keys = len(self.hashes or ()), len(self.keys or ())
        size = hashes * _HASH_BYTES + keys * _KEY_BYTES
        if size <= _FEW_BYTES:
            return nullcontext()
        return LEDGER.claim("bodies", size, path=f"{hashes + keys} keys", most=most)

    def to_lookup(self) -> LookupRequest:
        """The planner's form."""
        return LookupRequest(
            self.selector(),
            self.partition,
            None if self.keys is None else tuple(self.keys),
            None if self.hashes is None else tuple(self.hashes),
            self.time_zone,
        )


class AssignBody(LookupBody):
    """Which buckets would a writer assign?"""

    example: ClassVar = {
        "partition": {"dt": "2025-08-01"},
        "keys": [{"id": 1}],
        "num_assigners": 2,
        "num_channels": 2,
    }

    assign_id: Annotated[int, Field(ge=0, lt=_INT32)] = 0
    num_assigners: Channels = 1
    num_channels: Channels = 1

    def to_request(self) -> AssignRequest:
        """The planner's form."""
        return AssignRequest(self.to_lookup(), self.assign_id, self.num_assigners, self.num_channels)


BodyType = TypeVar("BodyType", bound=Body)

# What is left of such a body would be taken for the next request on the connection.
_CLOSE = {"Connection": "close"}
_SMALL_BYTES = 1 << 16
"""Bodies of so few bytes are received whatever others hold; the number of requests bounds them."""

_LEAST_SECONDS = 1.0
"""That a body has to arrive, however short the deadline."""


class JsonBody(Generic[BodyType]):
    """A FastAPI dependency that gives a request's body as ``model``."""

    def __init__(self, model: type[BodyType]) -> None:
        self._model = model

    async def __call__(self, request: Request) -> BodyType:
        """The body.

        Raises:
            ProblemError: it is too large, compressed, or did not arrive in time.
            RequestError: it is not what the model says.
            MemoryShortError: there is no memory for it now.
        """
        runtime = runtime_of(request)
        settings = runtime.settings
        seconds = max(settings.deadline_seconds, _LEAST_SECONDS)
        with LEDGER.claim("bodies", most=runtime.budget.bodies) as claim:
            try:
                async with asyncio.timeout(seconds):
                    content = await _receive(request, settings.body_bytes, claim)
            except TimeoutError as error:
                detail = f"the body did not arrive within {seconds:g} s"
                raise ProblemError(problem_of_status(408, detail, headers=_CLOSE)) from error
            except MemoryShortError as error:
                problem = problem_of(error)
                raise ProblemError(replace(problem, headers={**problem.headers, **_CLOSE})) from error
            if len(content) <= _SMALL_BYTES:
                return self._read(content)
            # Long enough for others to wait for it.
            return await runtime.parse(lambda: self._read_large(content, claim))

    def _read_large(self, content: bytearray, claim: Claim) -> BodyType:
        with claim.owning(), LEDGER.claim("decoding", memory_of_json(content), path="a body"):
            return self._read(content)

    def _read(self, content: bytearray) -> BodyType:
        expected = f"send a JSON object such as {self._model.example_text()}"
        if not content:
            raise RequestError(f"the body is empty: {expected}; curl sends one with -d")
        try:
            members = read_json(content)
        except RequestError as error:
            raise RequestError(f"{error}; {expected}") from error
        return self._model.read(members)


async def _receive(request: Request, limit: int, claim: Claim) -> bytearray:
    encoding = ", ".join(request.headers.getlist("content-encoding"))
    if encoding.strip().lower() not in ("", "identity"):
        detail = f"the body has Content-Encoding {encoding:.50}: send it as it is, without the header"
        raise ProblemError(problem_of_status(415, detail, headers=_CLOSE))
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > _SMALL_BYTES:
            claim.grow_to(len(content))
        if len(content) > limit:
            raise _too_large(limit)
    return content


def _too_large(limit: int) -> ProblemError:
    detail = f"the body is over the limit of {limit} bytes"
    return ProblemError(problem_of_status(413, detail, headers=_CLOSE, limit=limit))
