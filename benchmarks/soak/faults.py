"""An S3 server on the loopback interface, and a proxy before it that spoils some of its answers.

The server is moto's. Both are processes of their own. The proxy counts what passes and what it spoilt; it
tells so under ``/_counts``.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any, Final, cast
from urllib.request import Request, urlopen

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from moto.server import ThreadedMotoServer
from obstore.store import S3Store

COUNTS: Final = "/_counts"
BUCKET: Final = "soak"

_HANG_SECONDS: Final = 60.0
_OPTIONS: Final = {"access_key_id": "key", "secret_access_key": "secret"}
_ERROR: Final = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{0}</Code><Message>{0}</Message></Error>'
_OF_THE_CONNECTION: Final = frozenset({"connection", "transfer-encoding", "content-encoding", "keep-alive"})


class Fault(StrEnum):
    """What the proxy does to an answer."""

    SLOW_DOWN = "503 SlowDown"
    INTERNAL = "500 InternalError"
    RESET = "connection reset"
    CUT = "body cut short"
    HANG = "no answer"


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the objects are.

    Attributes:
        endpoint: the proxy's URL.
        options: of obstore, for the server behind it.
    """

    endpoint: str
    options: Mapping[str, Any]

    def put(self, objects: Mapping[str, bytes]) -> None:
        """Write objects past the proxy; one is seen whole or not at all."""
        store = S3Store(BUCKET, **self.options, client_options={"allow_http": True})
        for key, content in objects.items():
            store.put(key, content)


@contextmanager
def serve(share: float = 0, delay_seconds: float = 0, *, remembers: bool = False) -> Iterator[Storage]:
    """Serve an empty bucket behind a proxy.

    ``share``: of all answers, that the proxy spoils.
    ``delay_seconds``: of every answer.
    ``remembers``: the server, which is slow, is asked once for each object; nothing may change then.
    """
    context = multiprocessing.get_context("spawn")
    processes = []

    def start(run: object, *arguments: object) -> int:
        ours, theirs = context.Pipe()
        process = context.Process(target=run, args=(*arguments, theirs), daemon=True)  # type: ignore[arg-type]
        process.start()
        processes.append(process)
        return cast("int", ours.recv())

    try:
        options = {**_OPTIONS, "endpoint": f"http://127.0.0.1:{start(_run_server)}"}
        urlopen(Request(f"{options['endpoint']}/{BUCKET}", method="PUT")).close()  # noqa: S310 - our own
        yield Storage(
            f"http://127.0.0.1:{start(_run_proxy, options['endpoint'], share, delay_seconds, remembers)}",
            options,
        )
    finally:
        for process in processes:
            process.kill()
            process.join()


def _run_server(ready: Connection) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    ready.send(server.get_host_and_port()[1])
    threading.Event().wait()


def _run_proxy(
    upstream: str,
    share: float,
    delay_seconds: float,
    remembers: bool,  # noqa: FBT001 - arguments of processes have no names
    ready: Connection,
) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(_Proxy(upstream, share, delay_seconds, remembers=remembers).run(ready))


class _Proxy:
    def __init__(self, upstream: str, share: float, delay_seconds: float, *, remembers: bool) -> None:
        self._known: dict[tuple[str, str, str], tuple[int, dict[str, str], bytes]] | None = (
            {} if remembers else None
        )
        self._upstream = upstream
        self._share = share
        self._delay_seconds = delay_seconds
        self._chance = random.Random(share)
        self._counts: Counter[str] = Counter()

    async def run(self, ready: Connection) -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_get(COUNTS, self._tell)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        connector = TCPConnector(limit=0)
        timeout = ClientTimeout(total=_HANG_SECONDS)
        async with ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._session = session
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            ready.send(runner.addresses[0][1])
            await asyncio.Event().wait()

    async def _tell(self, _: web.Request) -> web.Response:
        return web.json_response(self._counts)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        self._counts["requests"] += 1
        await asyncio.sleep(self._delay_seconds)
        fault = self._chance.choice([*Fault]) if self._chance.random() < self._share else None
        if fault is not None:
            self._counts[fault] += 1
        match fault:
            case Fault.SLOW_DOWN:
                return web.Response(status=503, text=_ERROR.format("SlowDown"))
            case Fault.INTERNAL:
                return web.Response(status=500, text=_ERROR.format("InternalError"))
            case Fault.RESET:
                return _reset(request)
            case Fault.HANG:
                await asyncio.sleep(_HANG_SECONDS)
                return _reset(request)
        status, headers, content = await self._ask(request)
        if fault is Fault.CUT and content:
            response = web.StreamResponse(status=status, headers=headers)
            await response.prepare(request)
            await response.write(content[: len(content) // 2])
            return _reset(request)
        if request.method == "HEAD":
            # What the object is long, which no body shows.
            response = web.StreamResponse(status=status, headers=headers)
            await response.prepare(request)
            return response
        headers.pop("Content-Length", None)
        return web.Response(status=status, headers=headers, body=content)

    async def _ask(self, request: web.Request) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the server's answer."""
        key = request.method, request.raw_path, request.headers.get("Range", "")
        if self._known is not None and key in self._known:
            status, headers, content = self._known[key]
            return status, dict(headers), content
        url = f"{self._upstream}{request.raw_path}"
        body = await request.read()
        async with self._session.request(
            request.method, url, headers=request.headers, data=body, allow_redirects=False
        ) as answer:
            content = await answer.read()
            headers = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in _OF_THE_CONNECTION
            }
        if self._known is not None:
            self._known[key] = answer.status, dict(headers), content
        return answer.status, headers, content


def _reset(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
