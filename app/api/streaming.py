"""Answers that are made while they are sent, so that they take no more memory than one piece of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from app.api.runtime import Runtime
from app.observation import Phase, during

if TYPE_CHECKING:
    from starlette.types import Send


class PieceStream(StreamingResponse):
    """Sends pieces that blocking work makes, each before a deadline of its own, as the caller takes them.

    The first piece is made before anything is sent, so that what goes wrong until then is a problem answer.
    What goes wrong later breaks the connection off, and so does a caller who leaves a piece untaken: the
    answer then lacks its end.

    Args:
        runtime: does the work.
        pieces: the body; makes a piece when asked for the next.
        media_type: of the body.
        headers: of the response.
    """

    def __init__(
        self, runtime: Runtime, pieces: Iterator[bytes], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__((), headers=headers, media_type=media_type)
        self._runtime = runtime
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        """Makes and sends the pieces.

        Raises:
            ClientDisconnect: the caller does not take them.
        """
        piece = await self._next()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while piece is not None:
            try:
                async with asyncio.timeout(self._runtime.settings.deadline_seconds):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError as error:
                raise ClientDisconnect from error
            piece = await self._next()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes | None:
        return await self._runtime.run(self._make, is_begun=True)

    def _make(self) -> bytes | None:
        with during(Phase.ENCODE):
            return next(self._pieces, None)
