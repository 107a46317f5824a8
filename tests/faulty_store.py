"""A store that speaks as much of S3 as reading and creating takes, and fails as a test says."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, auto
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_DRIP_SECONDS = 0.05


class Fault(Enum):
    SLOW_DOWN = auto()
    """It is answered with the error that asks for fewer."""
    FORBIDDEN = auto()
    """It is refused for a lack of rights."""
    RESET = auto()
    """The connection is reset before the answer."""
    CUT = auto()
    """The connection is reset in the middle of the answer."""
    HANG = auto()
    """It is never answered."""
    DRIP = auto()
    """The answer comes a byte at a time, none of them late."""


class Store:
    """Objects of one bucket.

    ``objects``: by key.
    ``fault``: what becomes of the request for a key, if anything; called for each request, one at a time.

    Attributes:
        asked: how often each key was asked for; listings count for the prefix.
        signed_by: with which access key each request was signed.
        hanging: requests that hang, or did.
        hangs: is notified of each of them.
        ends: set it to end them, without an answer.
    """

    def __init__(self, objects: Mapping[str, bytes], fault: Callable[[str], Fault | None]) -> None:
        self.objects = dict(objects)
        self.asked: Counter[str] = Counter()
        self.signed_by: list[str] = []
        self.hanging = 0
        self.hangs = threading.Condition()
        self._fault = fault
        self._lock = threading.Lock()
        self.ends = threading.Event()

    @classmethod
    def of(cls, directory: Path, fault: Callable[[str], Fault | None]) -> Store:
        files = (path for path in directory.rglob("*") if path.is_file())
        return cls({path.relative_to(directory).as_posix(): path.read_bytes() for path in files}, fault)

    def ask(self, key: str) -> Fault | None:
        """Count a request, and tell what becomes of it."""
        with self._lock:
            self.asked[key] += 1
            return self._fault(key)

    def hang(self) -> None:
        """Keep a request for the life of the store."""
        with self.hangs:
            self.hanging += 1
            self.hangs.notify_all()
        self.ends.wait()

    @contextmanager
    def serving(self) -> Iterator[dict[str, Any]]:
        """Serve on the loopback interface; yield the options that storage libraries find it with."""
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_port}"
            yield {"endpoint": endpoint, "access_key_id": "key", "secret_access_key": "secret"}
        finally:
            self.ends.set()
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # or connections that come at the same time are made to wait for seconds


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        key = asked.get("prefix") or unquote(parts.path).removeprefix(f"/{BUCKET}").strip("/")
        if signed := re.search(r"Credential=([^/]+)", self.headers.get("Authorization", "")):
            self.store.signed_by.append(signed[1])
        match self.store.ask(key):
            case Fault.RESET:
                self._reset()
            case Fault.HANG:
                self.store.hang()
                self.close_connection = True
            case Fault.SLOW_DOWN | Fault.FORBIDDEN as fault:
                status, code = (503, "SlowDown") if fault is Fault.SLOW_DOWN else (403, "AccessDenied")
                self._answer(status, _error(code))
            case Fault.CUT | Fault.DRIP as fault:
                is_list = "list-type" in asked
                content = self._listing(asked.get("prefix", "")) if is_list else self._content(key)
                self._break_off(content or b"", fault)
            case None if "list-type" in asked:
                self._answer(200, self._listing(asked.get("prefix", "")))
            case None:
                content = self._content(key)
                if content is None:
                    self._answer(404, _error("NoSuchKey"))
                elif (wanted := self._range()) is not None and wanted.start >= self._size():
                    self._answer(416, _error("InvalidRange"))
                else:
                    self._answer(206 if self._range() else 200, content)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def do_PUT(self) -> None:
        """Store an object, unless there is one and the caller minds; a fault loses the answer."""
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").strip("/")
        content = self.rfile.read(int(self.headers["Content-Length"]))
        is_taken = self.headers.get("If-None-Match") == "*" and key in self.store.objects
        if not is_taken:
            self.store.objects[key] = content
        if self.store.ask(key) is not None:
            self._reset()
        elif is_taken:
            self._answer(412, _error("PreconditionFailed"))
        else:
            self._answer(200, b"")

    def do_DELETE(self) -> None:
        self.store.objects.pop(unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").strip("/"), None)
        self._answer(204, b"")

    def _content(self, key: str) -> bytes | None:
        content = self.store.objects.get(key)
        wanted = self._range()
        return content if content is None or wanted is None else content[wanted]

    def _size(self) -> int:
        key = unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").strip("/")
        return len(self.store.objects.get(key, b""))

    def _range(self) -> slice | None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        return None if wanted is None else slice(int(wanted[1]), int(wanted[2]) + 1)

    def _listing(self, prefix: str) -> bytes:
        below = {key.removeprefix(prefix): key for key in self.store.objects if key.startswith(prefix)}
        directories = {name.partition("/")[0] for name in below if "/" in name}
        files = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<Size>{len(self.store.objects[key])}</Size></Contents>"
            for name, key in below.items()
            if "/" not in name
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>"
            for name in directories
        )
        return f"<ListBucketResult>{files}{common}</ListBucketResult>".encode()

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if (wanted := self._range()) is not None and status == HTTPStatus.PARTIAL_CONTENT:
            last = wanted.start + length - 1
            self.send_header("Content-Range", f"bytes {wanted.start}-{last}/{self._size()}")
        self.end_headers()

    def _answer(self, status: int, content: bytes) -> None:
        self._head(status, len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def _break_off(self, content: bytes, fault: Fault) -> None:
        self._head(206 if self._range() else 200, len(content))
        if fault is Fault.CUT:
            self.wfile.write(content[: len(content) // 2])
            self._reset()
            return
        self.close_connection = True
        with suppress(OSError):
            for at in range(len(content)):
                self.wfile.write(content[at : at + 1])
                if self.store.ends.wait(_DRIP_SECONDS):
                    return

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
