"""What all request handlers share: the service, the settings, and the threads that blocking work runs in."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypeVar

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api.strict_json import write_json
from app.errors import DeadlineExceededError
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import time_limit

T = TypeVar("T")


class Runtime:
    """One per running service.

    Attributes:
        settings: what the operator set.
        service: answers the questions.
    """

    def __init__(self, settings: Settings, service: IndexService) -> None:
        self.settings = settings
        self.service = service
        # A thread that storage holds up stays counted here after its request was answered with 504, so that
        # no number of such requests makes more threads.
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="paimon-index")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of blocking ``work``, done in a thread before the deadline.

        Raises:
            DeadlineExceededError: the time was up, in the queue or in the work.
        """
        seconds = self.settings.deadline_seconds

        def limited() -> T:
            with time_limit(seconds):
                return work()

        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, limited)
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"the request did not finish within {seconds:g} s: ask for less, or ask the operator for more"
            ) from error

    async def answer(self, work: Callable[[], object]) -> Response:
        """The JSON answer that blocking ``work`` gives; written in the thread, too, since it may be long."""
        content = await self.run(lambda: write_json(work()))
        return Response(content, media_type="application/json")

    def close(self) -> None:
        """Ends the threads; work that was not begun is dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


Shared = Annotated[Runtime, Depends(_runtime)]
