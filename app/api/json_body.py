"""Receives JSON bodies: bounded in bytes and in time, strict in form, documented in OpenAPI."""

import asyncio
from dataclasses import replace
from typing import Generic, TypeVar

from starlette.requests import Request

from app.api.bodies import Body
from app.api.load import HeldBody
from app.api.problems import ProblemError, problem_of, problem_of_status
from app.api.runtime import Runtime
from app.api.strict_json import read_json
from app.errors import MemoryShortError
from app.storage.process_memory import PROCESS_MEMORY

BodyType = TypeVar("BodyType", bound=Body)

# What is left of such a body would be taken for the next request on the connection.
_CLOSE = {"Connection": "close"}
_SMALL_BYTES = 1 << 16
_MEMORY_PER_BYTE = 8


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
        with runtime.bodies.one_more() as held:
            try:
                async with asyncio.timeout(settings.body_seconds):
                    content = await _receive(request, settings.body_bytes, held)
            except TimeoutError as error:
                detail = f"the body did not arrive within {settings.body_seconds:g} s"
                raise ProblemError(problem_of_status(408, detail, headers=_CLOSE)) from error
            except MemoryShortError as error:
                problem = problem_of(error)
                raise ProblemError(replace(problem, headers={**problem.headers, **_CLOSE})) from error
            if len(content) <= _SMALL_BYTES:
                return self._model.read(read_json(content))
            # Long enough for others to wait for it, and JSON takes several times as much memory as its text.
            PROCESS_MEMORY.require(_MEMORY_PER_BYTE * len(content), "a body")
            return await runtime.run(lambda: self._model.read(read_json(content)))


async def _receive(request: Request, limit: int, held: HeldBody) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    content = bytearray()
    async for piece in request.stream():
        held.grow(len(piece))
        content += piece
        if len(content) > limit:
            raise _too_large(limit)
    return bytes(content)


def _too_large(limit: int) -> ProblemError:
    detail = f"the body is over the limit of {limit} bytes"
    return ProblemError(problem_of_status(413, detail, headers=_CLOSE, limit=limit))
