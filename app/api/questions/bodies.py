"""JSON bodies: the requests of planning, with further members that only HTTP has.

:class:`JsonBody` receives them: bounded in bytes and in time, read strictly, documented in OpenAPI.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Generic, Self, TypeVar

from pydantic import Field, model_validator
from starlette.requests import Request as HttpRequest

from app.api.http.problems import ProblemError, problem_of, problem_of_status
from app.api.http.strict_json import memory_of_json, read_json
from app.api.runtime import runtime_of
from app.errors import MemoryShortError, RequestError
from app.planning.request import DeletionsRequest, FilteredRequest, PlanRequest, VersionedRequest
from app.planning.request.members import Count, Filter, InLists, Name, Request
from app.work import LEDGER, Claim

_LONGEST_WAIT: Final = 60.0

_RequestType = TypeVar("_RequestType", bound=Request)

# The unread rest of a refused body would be taken for the next request on the connection.
_CLOSE = {"Connection": "close"}
# Bodies up to this size need no claim: the number of requests bounds them.
_SMALL_BYTES = 1 << 16

# Least time for a body to arrive, however short the deadline.
_LEAST_SECONDS = 1.0


class PagedRequest(VersionedRequest):
    """A request whose answer comes in pages."""

    page_size: Annotated[int, Field(ge=1)] | None = None
    page_token: str | None = None


class PlanBody(PlanRequest, PagedRequest):
    """A query whose data files are to be planned."""


class DeletionsBody(DeletionsRequest, PagedRequest):
    """Data files whose deleted rows are to be listed."""


class PrunedSnapshotBody(FilteredRequest):
    """A query, whose files a new snapshot is to name."""

    example: ClassVar = {"filter": "dt = '2025-08-01' AND score BETWEEN 60 AND 80"}

    in_lists: InLists | None = None
    budget_ms: Count | None = Field(
        default=None,
        description="Milliseconds for reading index files and looking up long lists in them, as in a plan.",
    )
    most_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0,
        description="Largest share of the table's files, or of its rows in a table with data evolution. If "
        "more are kept, no files are named, and `document` is null: the engine's own plan costs less.",
    )


class ChangesBody(FilteredRequest):
    """Two versions between which to list the files that came and went."""

    example: ClassVar = {"from_snapshot_id": 3, "snapshot_id": 5, "filter": "dt = '2025-08-01'"}

    from_token: Name | None = Field(
        default=None,
        description="`next_from_token` of an answer: the changes since the version of that answer.",
    )
    from_snapshot_id: Count | None = Field(
        default=None,
        description="The changes since the snapshot that has this number now; name the later version, too. "
        "Without it and `from_token`, nothing has changed, and `next_from_token` continues from now.",
    )
    filter: Filter | None = Field(
        default=None, description="Only files that can have a row that satisfies it are listed."
    )
    uris: bool = Field(
        default=False, description="Paths are absolute URIs instead of relative to the warehouse."
    )
    wait_seconds: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = Field(
        default=0.0, description="Longest wait until a file that the filter allows comes or goes."
    )

    @model_validator(mode="after")
    def _from_one_version(self) -> Self:
        if self.from_token is not None and self.from_snapshot_id is not None:
            raise ValueError("at most one of from_token and from_snapshot_id names the earlier version")
        is_named = (self.snapshot_id, self.tag, self.timestamp_millis) != (None, None, None)
        if self.from_snapshot_id is not None and not is_named:
            raise ValueError(
                "a number alone is ambiguous: after a rollback another snapshot has it. To "
                "follow a table, send the next_from_token of the last answer as from_token (the first one "
                "has neither); to compare two versions, name the later one, too, such as by snapshot_id"
            )
        if self.from_token is None and self.from_snapshot_id is None and self.wait_seconds:
            raise ValueError("wait_seconds waits for changes since an answer: send its next_from_token, too")
        return self


class JsonBody(Generic[_RequestType]):
    """A FastAPI dependency that reads the body into a request."""

    def __init__(self, model: type[_RequestType]) -> None:
        self._model = model
        # Built while the service starts, instead of while the first caller waits.
        model.model_rebuild()

    async def __call__(self, request: HttpRequest) -> _RequestType:
        """Read the body.

        Raises ProblemError if it is too large, compressed, or did not arrive in time. Raises RequestError if
        it does not fit the model. Raises MemoryShortError if there is no memory for it now.
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
            # Parsing a large body on the event loop would hold up other requests.
            return await runtime.parse(lambda: self._read_large(content, claim))

    def _read_large(self, content: bytearray, claim: Claim) -> _RequestType:
        with claim.owning(), LEDGER.claim("decoding", memory_of_json(content), path="a body"):
            return self._read(content)

    def _read(self, content: bytearray) -> _RequestType:
        expected = f"send a JSON object such as {self._model.example_text()}"
        if not content:
            raise RequestError(f"the body is empty: {expected}; curl sends one with -d")
        try:
            members = read_json(content)
        except RequestError as error:
            raise RequestError(f"{error}; {expected}") from error
        return self._model.read(members)


async def _receive(request: HttpRequest, limit: int, claim: Claim) -> bytearray:
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
