"""The program that decodes ORC and Parquet files, in a process that :mod:`app.table.columnar.decoder` starts.

It imports nothing of this project: it starts sooner, and takes less memory.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

_MOST_TEXT = 500
_KEPT_BYTES = 64 << 20
"""What was freed and is this much is used again: to return it takes as long as to decode a file."""


def main() -> None:
    """Answers requests until its input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints is no answer.
    os.dup2(2, 1)
    own_bytes = _data_bytes()
    _say(answers, {})
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        data = sys.stdin.buffer.read(request["bytes"])
        if len(data) < request["bytes"]:
            return
        # Whoever asks ends it sooner, if it is still there.
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
        if _data_bytes() > own_bytes + _KEPT_BYTES:
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
    """Names of the columns that are there; the reader of ORC takes no other."""
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


def _limit(size: int) -> None:
    """Has the system refuse memory beyond ``size`` bytes, or beyond what an operator allows."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if size == resource.RLIM_INFINITY or size > most != resource.RLIM_INFINITY:
        size = most
    resource.setrlimit(resource.RLIMIT_DATA, (size, most))


def _data_bytes() -> int:
    """Memory of its own, which the limit counts; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


if __name__ == "__main__":
    main()
