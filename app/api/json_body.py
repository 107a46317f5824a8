"""Receives JSON bodies: bounded in bytes and in time, strict in form, documented in OpenAPI."""

import asyncio
from typing import Generic, TypeVar

from starlette.requests import Request

from app.api.bodies import Body
from app.api.problems import ProblemError, problem_of_status
from app.api.strict_json import read_json

BodyType = TypeVar("BodyType", bound=Body)

# What is left of such a body would be taken for the next request on the connection.
_CLOSE = {"Connection": "close"}


class JsonBody(Generic[BodyType]):
    """A FastAPI dependency that gives a request's body as ``model``."""

    def __init__(self, model: type[BodyType]) -> None:
        self._model = model

    async def __call__(self, request: Request) -> BodyType:
        """The body.

        Raises:
            ProblemError: it is too large, or did not arrive in time.
            RequestError: it is not what the model says.
        """
        settings = request.app.state.runtime.settings
        try:
            async with asyncio.timeout(settings.body_seconds):
                content = await _receive(request, settings.body_bytes)
        except TimeoutError as error:
            detail = f"the body did not arrive within {settings.body_seconds:g} s"
            raise ProblemError(problem_of_status(408, detail, headers=_CLOSE)) from error
        return self._model.read(read_json(content))


async def _receive(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > limit:
            raise _too_large(limit)
    return bytes(content)


def _too_large(limit: int) -> ProblemError:
    detail = f"the body is over the limit of {limit} bytes"
    return ProblemError(problem_of_status(413, detail, headers=_CLOSE, limit=limit))
