"""A server on the loopback interface that gives the answers that it was told, one after the other."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; with ``announced`` more bytes are promised than come, ``dripping`` its head never ends."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None
    silent: bool = False
    dripping: bool = False


READY = Answer(body=b'{"status": "ready"}')


def problem(status: int, slug: str, headers: dict[str, str] | None = None, **members: Any) -> Answer:
    told = {
        "type": f"urn:paimon-index:error:{slug}",
        "title": "t",
        "status": status,
        "detail": "told",
        **members,
    }
    return Answer(status, json.dumps(told).encode(), headers or {})


class ScriptedServer:
    """Answers with ``answers`` in their order, the last one for ever."""

    def __init__(self) -> None:
        self.answers = [READY]
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.stopping = threading.Event()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                script.serve(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                script.serve(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = False  # closing waits for them, so that no connection is left behind

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append((handler.path, dict(handler.headers)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.silent:
            self.stopping.wait()
            handler.close_connection = True
            return
        if answer.dripping:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(200):
                if self.stopping.wait(0.02):
                    break
                handler.wfile.write(b"x")
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        length = len(answer.body) if answer.announced is None else answer.announced
        for name, value in {"Content-Length": str(length), **answer.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer.body)
        if answer.announced is not None:
            handler.close_connection = True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def nowhere() -> str:
    """Return a base URL at which nothing listens."""
    with ScriptedServer() as server:
        return server.url
