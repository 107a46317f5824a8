"""HDFS on this machine: a name node and a data node in one process of Java."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from app.storage.stores.libraries import open_filesystem
from tests.maven import maven_jar

JARS: Final = (
    *("org.apache.hadoop:hadoop-client-minicluster:3.3.6", "org.apache.hadoop:hadoop-client-api:3.3.6"),
    *("org.apache.hadoop:hadoop-client-runtime:3.3.6", "commons-logging:commons-logging:1.2"),
    *("ch.qos.reload4j:reload4j:1.2.22", "org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-simple:1.7.36"),
)
"""Name node and data node, with what they log by."""


@contextmanager
def serve(directory: Path, warehouse: Path) -> Iterator[str]:
    """Serve a copy of a local warehouse, kept in a directory of its own, and yield its URL."""
    classpath = ":".join(str(maven_jar(each)) for each in JARS)
    with subprocess.Popen(  # noqa: S603 - fixed words
        [
            *("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath),
            str(Path(__file__).with_name("Hdfs.java")),
            *(str(directory), str(warehouse)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        port = process.stdout.readline().strip()
        if not port:
            raise AssertionError(f"HDFS does not start: {process.stderr.read()}")
        # Nobody reads what it says from then on.
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield f"hdfs://127.0.0.1:{port}/warehouse"
        process.stdin.close()
        drain.join()


def copy_out(url: str, directory: Path) -> Path:
    """Return a copy of a warehouse on this machine."""
    filesystem: Any = open_filesystem(url, {})
    filesystem.get(filesystem._strip_protocol(url), str(directory), recursive=True)  # noqa: SLF001 - fsspec's
    return directory
