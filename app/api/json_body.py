"""Receives JSON bodies: bounded in bytes and in time, strict in form, documented in OpenAPI."""

import asyncio
from dataclasses import replace
from typing import Generic, TypeVar

from starlette.requests import Request

from app.api.bodies import Body
from app.api.problems import ProblemError, problem_of, problem_of_status
from app.api.runtime import Runtime
from app.api.strict_json import read_json
from app.errors import MemoryShortError, RequestError
from app.storage.ledger import LEDGER, Claim

BodyType = TypeVar("BodyType", bound=Body)

# What is left of such a body would be taken for the next request on the connection.
_CLOSE = {"Connection": "close"}
_SMALL_BYTES = 1 << 16
"""Bodies of so few bytes are received whatever others hold; the number of requests bounds them."""

_MEMORY_PER_BYTE = 8
_LEAST_SECONDS = 1.0
"""That a body has to arrive, however short the deadline."""


class JsonBody(Generic[BodyType]):
    """A FastAPI dependency that gives a request's body as ``model``."""

    def __init__(self, model: type[BodyType]) -> None:
        self._model = model

    async def __call__(self, request: Request) -> BodyType:
        """The body.

        Raises:
            ProblemError: it is too large, or did not arrive in time.
            RequestError: it is not what the model says.
            MemoryShortError: there is no memory for it now.
        """
        runtime: Runtime = request.app.state.runtime
        settings = runtime.settings
        seconds = max(settings.deadline_seconds, _LEAST_SECONDS)
        with runtime.bodies.claim() as claim:
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
            # Long enough for others to wait for it, and JSON takes several times as much memory as its text.
            LEDGER.require(_MEMORY_PER_BYTE * len(content), "a body")
            return await runtime.run(lambda: self._read(content))

    def _read(self, content: bytes) -> BodyType:
        expected = f"send a JSON object such as {self._model.example_text()}"
        if not content:
            raise RequestError(f"the body is empty: {expected}; curl sends one with -d")
        try:
            members = read_json(content)
        except RequestError as error:
            raise RequestError(f"{error}; {expected}") from error
        return self._model.read(members)


async def _receive(request: Request, limit: int, claim: Claim) -> bytes:
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
    return bytes(content)


def _too_large(limit: int) -> ProblemError:
    detail = f"the body is over the limit of {limit} bytes"
    return ProblemError(problem_of_status(413, detail, headers=_CLOSE, limit=limit))
