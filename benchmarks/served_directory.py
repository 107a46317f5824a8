"""A directory as a bucket of S3, in a process of its own: it answers after a delay, and counts calls.

What is written to the bucket stays in memory. A server that is slow itself, as moto is, would be taken for
a store that fails. Keys of some first directories are in :class:`Trouble`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from aiohttp import web

BUCKET: Final = "bucket"
COUNTS: Final = "/_counts"
ALL: Final = ""
"""Under which the counts have all calls; other names are the first directories of keys."""

_LARGEST: Final = 1 << 30
_WRITTEN: Final = "2026-01-01T00:00:00.000Z"
_LISTED: Final = (
    "<Contents><Key>{key}</Key><LastModified>{written}</LastModified><Size>{size}</Size></Contents>"
)
_DELAYS: Final[Mapping[str, float]] = {"hanging": 3_600, "slow": 0.5}
_HEADERS: Final = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "ETag": '"x"'}


class Trouble(StrEnum):
    """Names of directories, and what becomes of calls for what lies there."""

    HANGING = "hanging"
    REFUSING = "refusing"
    SLOW = "slow"
    """Half a second more."""
    DAMAGED = "damaged"
    """They get what ``shared`` has, with a wrong byte at its end."""


@contextmanager
def serve(directory: Path, delay_seconds: float) -> Iterator[str]:
    """Serve for the time of a block, and yield the URL."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(directory, delay_seconds, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


def _run(directory: Path, delay_seconds: float, ready: Connection) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(_Server(directory, delay_seconds).run(ready))


class _Server:
    def __init__(self, directory: Path, delay_seconds: float) -> None:
        self._directory = directory
        self._delay_seconds = delay_seconds
        self._objects: dict[str, bytes] = {}
        self._counts: Counter[str] = Counter()

    async def run(self, ready: Connection) -> None:
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_get(COUNTS, self._tell)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    async def _tell(self, _: web.Request) -> web.Response:
        return web.json_response(self._counts)

    async def _answer(self, request: web.Request) -> web.Response:
        key = request.path.removeprefix(f"/{BUCKET}").strip("/")
        self._counts.update((ALL, (request.query.get("prefix") or key).partition("/")[0]))
        directory, _, rest = key.partition("/")
        await asyncio.sleep(self._delay_seconds + _DELAYS.get(directory, 0))
        if directory == Trouble.REFUSING:
            return web.Response(status=403, text="<Error><Code>AccessDenied</Code></Error>")
        match request.method:
            case "PUT":
                if "If-None-Match" in request.headers and key in self._objects:
                    return web.Response(status=412)
                self._objects[key] = await request.read()
                return web.Response(headers=_HEADERS)
            case _ if "list-type" in request.query:
                return web.Response(text=self._listing(request.query.get("prefix", "")))
        content = self._content(f"shared/{rest}" if directory == Trouble.DAMAGED else key)
        if content is not None and directory == Trouble.DAMAGED:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if content is None:
            return web.Response(status=404, text="<Error><Code>NoSuchKey</Code></Error>")
        if "Range" not in request.headers:
            return web.Response(body=content, headers=_HEADERS)
        start, _, last = request.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(start) : int(last) + 1]
        if not part:
            return web.Response(status=416)
        place = f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}"
        return web.Response(status=206, body=part, headers={**_HEADERS, "Content-Range": place})

    def _content(self, key: str) -> bytes | None:
        if key not in self._objects:
            path = self._directory / key
            if not path.is_file():
                return None
            self._objects[key] = path.read_bytes()
        return self._objects[key]

    def _listing(self, prefix: str) -> str:
        """Return what lies right below a directory; nobody lists what was written."""
        above = self._directory / prefix
        names = sorted(above.iterdir()) if above.is_dir() else []
        listed = [
            f"<CommonPrefixes><Prefix>{escape(prefix + path.name)}/</Prefix></CommonPrefixes>"
            if path.is_dir()
            else _LISTED.format(key=escape(prefix + path.name), written=_WRITTEN, size=path.stat().st_size)
            for path in names
        ]
        # Arrow takes a listing without a count for one of nothing.
        count = f"<KeyCount>{len(listed)}</KeyCount>"
        return f"<ListBucketResult>{count}{''.join(listed)}</ListBucketResult>"
