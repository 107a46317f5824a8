"""An S3 server on the loopback interface."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer
from obstore.store import S3Store


@contextmanager
def serve(bucket: str, keys: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """Serve one bucket, and yield the options that storage libraries find it with.

    Buckets outlive their server: no two callers may name theirs alike.
    """
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _put_in_turn(server)
    _, port = server.get_host_and_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = {"endpoint": endpoint, "access_key_id": "key", "secret_access_key": "secret"}
    urlopen(Request(f"{endpoint}/{bucket}", method="PUT")).close()  # noqa: S310 - our own
    for key, content in keys.items():
        store_of(bucket, options).put(key, content)
    yield options
    server.stop()


def store_of(bucket: str, options: Mapping[str, Any]) -> S3Store:
    """Return the bucket, as it is seen by somebody else."""
    return S3Store(bucket, **options, client_options={"allow_http": True})


def _put_in_turn(server: ThreadedMotoServer) -> None:
    """Have a conditional put see what the one before it has put, as with S3: moto looks, and then puts."""
    listener: Any = server._server  # noqa: SLF001 - there is no other way to what answers
    answer, turn = listener.app, threading.Lock()

    def answer_in_turn(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with turn if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            found: Iterable[bytes] = answer(environ, start_response)
            return found

    listener.app = answer_in_turn
