"""The table in an object store: an S3 server on the loopback interface, each answer of which takes 20 ms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.soak.faults import BUCKET, COUNTS, serve

_DELAY_SECONDS: Final = 0.02
_KEYS: Final = ("key", "secret")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the table lies.

    Attributes:
        warehouse: as the service is told.
        hadoop_warehouse: as Hadoop calls it.
        hadoop_settings: that Hadoop needs to reach it, by name.
        counts_url: tells how many calls the store has answered; None for a directory.
    """

    warehouse: str
    hadoop_warehouse: str
    hadoop_settings: dict[str, str]
    counts_url: str | None


@contextmanager
def directory(warehouse: Path) -> Iterator[Place]:
    """Yield the directory that the table was written to."""
    yield Place(str(warehouse), f"file:{warehouse}", {}, None)


@contextmanager
def object_store(warehouse: Path) -> Iterator[Place]:
    """Yield a store with what lies in a directory.

    Process that start meanwhile find it by their environment.
    """
    with serve(delay_seconds=_DELAY_SECONDS, remembers=True) as storage:
        files = [path for path in warehouse.rglob("*") if path.is_file()]
        storage.put({f"w/{path.relative_to(warehouse)}": path.read_bytes() for path in files})
        key, secret = _KEYS
        environment = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": storage.endpoint,
        }
        hadoop = {
            "spark.hadoop.fs.s3a.access.key": key,
            "spark.hadoop.fs.s3a.secret.key": secret,
            "spark.hadoop.fs.s3a.endpoint": storage.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        with patch.dict(os.environ, environment):
            yield Place(f"s3://{BUCKET}/w", f"s3a://{BUCKET}/w", hadoop, storage.endpoint + COUNTS)
