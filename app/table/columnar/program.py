"""Decodes ORC and Parquet files in a process that :mod:`app.table.columnar.decoder` starts.

It imports nothing of this project, to start sooner and take less memory. After its start the system denies it
files, connections and processes. The ORC library would open a file with the rules of the writer's time zone,
so ORC timestamps are readable only in ``_ZONES``, which are loaded first.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

_MOST_TEXT = 500
_NOBODY = 65534
_ZONES = (b"GMT", b"UTC")
_STATM = "/proc/self/statm"
_STATM_BYTES = 256
# Keep this much freed memory for the next file: returning it takes as long as decoding one.
_KEPT_BYTES = 64 << 20


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must stay out of the answers.
    os.dup2(2, 1)
    # Opened before the process is confined.
    statm = os.open(_STATM, os.O_RDONLY) if os.path.exists(_STATM) else None  # noqa: PTH110 - text in, text out
    own_bytes = _data_bytes(statm)
    _load_zones()
    _confine()
    _say(answers, {})
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        data = sys.stdin.buffer.read(request["bytes"])
        if len(data) < request["bytes"]:
            return
        # A backstop: a caller that is still there ends this process sooner.
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1)
        if own_bytes:
            _limit(own_bytes + len(data) + request["memory_bytes"])
        try:
            table = _decode(request["format"], data, request["columns"])
            size = _stream_bytes(table, request["memory_bytes"] // 2)
        except Exception as error:  # noqa: BLE001 - whatever a library raises is an answer
            _say(answers, {"error": f"{type(error).__name__}: {error}"[:_MOST_TEXT]})
        else:
            _say(answers, {"bytes": size})
            _write(table, pa.PythonFile(answers, "w"))
            answers.flush()
            del table
        del data
        if _data_bytes(statm) > own_bytes + _KEPT_BYTES:
            pa.default_memory_pool().release_unused()
        signal.setitimer(signal.ITIMER_REAL, 0)
        _limit(resource.RLIM_INFINITY)


def _decode(kind: str, data: bytes, columns: Sequence[str]) -> pa.Table:
    source = pa.BufferReader(data)
    file = orc.ORCFile(source) if kind == "ORC" else pq.ParquetFile(source, pre_buffer=False)
    rows = file.nrows if kind == "ORC" else file.metadata.num_rows
    # Every record names a file of its own, which no codec can shrink below a byte.
    if rows > len(data):
        raise ValueError(f"{rows} rows in {len(data)} bytes")
    if kind == "ORC":
        return file.read(_present(file.schema, columns))
    return file.read(columns, use_threads=False)


def _present(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    present = []
    for path in columns:
        inside: pa.Schema | pa.StructType = schema
        *parents, name = path.split(".")
        for parent in parents:
            inside = inside.field(parent).type
        if inside.get_field_index(name) >= 0:
            present.append(path)
    return present


def _stream_bytes(table: pa.Table, most: int) -> int:
    counted = pa.MockOutputStream()
    _write(table, counted)
    size: int = counted.size()
    if size > most:
        raise MemoryError(f"its columns take {size} bytes")
    return size


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def _say(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _load_zones() -> None:
    """Have the ORC library read the rules of some time zones, which it caches."""
    written = pa.BufferOutputStream()
    orc.write_table(pa.table({"at": pa.array([0], pa.timestamp("us"))}), written, compression="uncompressed")
    for zone in _ZONES:
        renamed = written.getvalue().to_pybytes().replace(_ZONES[0], zone)
        with suppress(pa.ArrowException, OSError):
            orc.ORCFile(pa.BufferReader(renamed)).read()


def _confine() -> None:
    """Deny this process files, connections and child processes."""
    if os.geteuid() == 0:
        # The system counts no processes of the superuser. A container without the right to change users has
        # nothing that only the superuser may do either.
        with suppress(PermissionError):
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    # The lowest number that is free: those below it are in use.
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, free))


def _limit(size: int) -> None:
    """Limit memory to ``size`` bytes, or to the operator's limit if that is lower."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if size == resource.RLIM_INFINITY or size > most != resource.RLIM_INFINITY:
        size = most
    resource.setrlimit(resource.RLIMIT_DATA, (size, most))


def _data_bytes(statm: int | None) -> int:
    if statm is None:
        return 0
    return int(os.pread(statm, _STATM_BYTES, 0).split()[5]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
