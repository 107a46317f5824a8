"""An S3 server on the loopback interface."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def serve(bucket: str, keys: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """Serves one bucket, and yields the options that storage libraries find it with.

    Buckets outlive their server: no two callers may name theirs alike.
    """
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "key", "secret": "secret"}
    files = S3FileSystem(**options)
    files.mkdir(bucket)
    for key, content in keys.items():
        files.pipe_file(f"{bucket}/{key}", content)
    yield options
    server.stop()
