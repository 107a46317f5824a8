"""Plans by a BTree global index, by the service, pypaimon and the Java engine, of a table without data files.

``python benchmarks/global_indexes.py make DIRECTORY [FILES ROWS]`` writes the table. ``compare DIRECTORY``
has planners in processes of their own plan the same conditions in turns: ``first`` is a new planner and its
first plan, ``warm`` a plan of one that has planned other literals. ``--pypaimon PYTHON`` is a Python that has
pypaimon, ``--engine CLASSPATH`` that of ``paimon-bundle``. ``--s3`` serves the directory from a bucket whose
calls take 20 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final
from urllib.request import urlopen

import numpy as np
import pyarrow as pa

_FIRST_RUNS: Final = 6
_RUNS: Final = {"point": 15, "range": 15, "in": 5}
FACTOR: Final = 0x9E37_79B9_7F4A_7C15 % (1 << 40) | 1
IDS: Final = 1 << 40
"""Ids are row ids times an odd number, modulo this."""
_KEYS_OF_A_FILE: Final = 1_200_000
_BLOCK_ENTRIES: Final = 4_000
_IN: Final = 1_000


def make(
    directory: Path,
    files: int,
    rows: int,
    *,
    index_files: int | None = None,
    block_entries: int = _BLOCK_ENTRIES,
    expanding: Sequence[int] = (),
) -> Path:
    """Write a table of so many files with so many rows each, and an index of its ids over all of them.

    ``index_files``: if given, so many, each of which may have any key.
    ``block_entries``: entries of a block.
    ``expanding``: if given, index files have a few bytes that expand to so many zeros, by turns.

    Return the directory of the table.
    """
    from app.table.manifests.index_manifest import IndexEntry  # noqa: PLC0415 - not where pypaimon plans
    from app.table.manifests.manifest_entry import FileKind, ManifestEntry  # noqa: PLC0415 - likewise
    from app.types import DataField, parse_type  # noqa: PLC0415 - likewise
    from app.types.index_files import GlobalIndex, IndexFileMeta  # noqa: PLC0415 - likewise
    from tests.tables import EMPTY_ROW, NO_STATISTICS, MadeTable, data_file  # noqa: PLC0415 - likewise

    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    column = DataField(0, "id", parse_type("BIGINT"))
    made = MadeTable.make(directory, [column], options=options, name="rows")
    entries = [
        ManifestEntry(
            FileKind.ADD,
            EMPTY_ROW,
            0,
            -1,
            data_file(
                file_name=f"data-{at}.parquet",
                row_count=rows,
                first_row_id=at * rows,
                max_sequence_number=at + 1,
                min_sequence_number=at + 1,
                value_statistics=NO_STATISTICS,
                value_statistics_columns=(),
            ),
        )
        for at in range(files)
    ]
    total = files * rows
    ids = (np.arange(total, dtype=np.uint64) * np.uint64(FACTOR) % np.uint64(IDS)).astype(np.int64)
    order = np.argsort(ids)
    count = -(-total // _KEYS_OF_A_FILE) if index_files is None else index_files
    index_entries = []
    for at in range(count):
        some = order[at * _KEYS_OF_A_FILE :][:_KEYS_OF_A_FILE] if index_files is None else order[at::count]
        keys = ids[some]
        content = (
            _built_to_expand(expanding[at % len(expanding)])
            if expanding
            else _btree(keys, some, block_entries)
        )
        name = f"btree-global-index-{at}.index"
        (made.directory / "index" / name).write_bytes(content)
        ends = b"".join(struct.pack("<iq", 8, int(key)) for key in keys[[0, -1]]) + b"\0\1\0"
        covered = GlobalIndex(0, total - 1, 0, None, ends)
        meta = IndexFileMeta("btree", name, len(content), len(some), global_index=covered)
        index_entries.append(IndexEntry(FileKind.ADD, EMPTY_ROW, 0, meta))
    made.commit(entries, index_entries=index_entries)
    snapshot = made.directory / "snapshot" / "snapshot-1"
    snapshot.write_text(snapshot.read_text().replace('"version"', f'"nextRowId": {total}, "version"'))
    return made.directory


def _btree(keys: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], block_entries: int) -> bytes:
    parts, index, at = [], [], 0
    for start in range(0, len(keys), block_entries):
        some = slice(start, start + block_entries)
        stored = _block(*_entries(keys[some], rows[some]))
        last = struct.pack("<q", int(keys[some][-1]))
        index.append((last, _varint(at) + _varint(len(stored) - 5)))
        parts.append(stored)
        at += len(stored)
    listed = [_varint(len(key)) + key + _varint(len(value)) + value for key, value in index]
    stored = _block(b"".join(listed), np.cumsum([0, *map(len, listed)][:-1]))
    return b"".join(parts) + stored + _footer(at, len(stored) - 5)


@cache
def _built_to_expand(length: int) -> bytes:
    """Return an index file whose index block is a few bytes, and so many zeros once it is expanded."""
    zeros: bytes = pa.Codec("zstd").compress(bytes(length), asbytes=True)
    packed = _varint(length) + zeros + b"\1"
    return packed + struct.pack("<I", zlib.crc32(packed)) + _footer(0, len(packed) - 1)


def _footer(at: int, size: int) -> bytes:
    """Return the end of a file whose index block is there."""
    return struct.pack("<qiqqiqiii", 0, 0, 0, at, size, 0, 0, 1, 0x50425449)


def _entries(keys: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Entries of a key of 8 bytes and one row id each, and where they start."""
    width = 1 + (rows > 0x7F) + (rows > 0x3FFF) + (rows > 0x1FFFFF)
    matrix = np.zeros((len(keys), 15), np.uint8)
    matrix[:, 0], matrix[:, 1:9] = 8, keys.astype("<i8").view(np.uint8).reshape(-1, 8)
    matrix[:, 9], matrix[:, 10] = 1 + width, 1
    for place in range(4):
        matrix[:, 11 + place] = (rows >> 7 * place) & 0x7F | np.where(place < width - 1, 0x80, 0)
    size = 11 + width
    return matrix[np.arange(15) < size[:, None]].tobytes(), np.cumsum(size) - size


def _block(body: bytes, starts: np.ndarray[Any, Any]) -> bytes:
    content = body + starts.astype("<u4").tobytes() + struct.pack("<Ib", len(starts), 1) + b"\0"
    return content + struct.pack("<I", zlib.crc32(content))


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


class _Ours:
    """The service: ``open`` begins a new one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._service: Any = None

    def open(self) -> None:
        from tests.tables import open_service  # noqa: PLC0415 - not where pypaimon plans

        if self._service is not None:
            self._service.close()
        self._service = open_service(Path(), url=self._url)

    def plan(self, form: str, ids: list[int]) -> int:
        from app.planning.request.requests import (  # noqa: PLC0415 - likewise
            PlanRequest,
            SelectionForm,
            TableRef,
        )

        condition = {
            "point": f"id = {ids[0]}",
            "in": f"id IN ({', '.join(map(str, ids))})",
            "range": f"id BETWEEN {ids[0]} AND {ids[-1]}",
        }[form]
        request = PlanRequest(filter=condition, selection=SelectionForm.RANGES)
        return len(self._service.plan(TableRef("golden", "golden", "rows"), request).files)


class _PyPaimon:
    """pypaimon: ``open`` begins a new catalog."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._table: Any = None

    def open(self) -> None:
        from pypaimon import CatalogFactory  # noqa: PLC0415 - not where the service plans

        options = {"warehouse": self._url}
        if self._url.startswith("s3:"):
            options |= {
                "fs.s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
                "fs.s3.accessKeyId": "key",
                "fs.s3.accessKeySecret": "secret",
                "fs.s3.region": "us-east-1",
            }
        self._table = CatalogFactory.create(options).get_table("golden.rows")

    def plan(self, form: str, ids: list[int]) -> int:
        builder = self._table.new_read_builder()
        test = builder.new_predicate_builder()
        predicate = {
            "point": lambda: test.equal("id", ids[0]),
            "in": lambda: test.is_in("id", ids),
            "range": lambda: test.between("id", ids[0], ids[-1]),
        }[form]()
        splits = builder.with_filter(predicate).new_scan().plan().splits()
        return sum(len(split.files) for split in splits)


def answer(planner: _Ours | _PyPaimon) -> None:
    """Plans each condition that a line of standard input has; ``open`` begins a new planner."""
    for line in sys.stdin:
        form, *ids = line.split()
        wall, processor, files = time.perf_counter(), time.process_time(), 0
        if form == "open":
            planner.open()
        else:
            files = planner.plan(form, list(map(int, ids)))
        took = time.perf_counter() - wall, time.process_time() - processor
        print("answer", *took, files, flush=True)


class _Process:
    """A planner in a process of its own."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.took: dict[tuple[str, str], list[tuple[float, float, int, int]]] = defaultdict(list)
        """Seconds, seconds of the processor, calls of the store, and files, by form and state."""
        self._process = subprocess.Popen(  # noqa: S603 - the planners that the caller names
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )

    def ask(self, form: str, ids: Sequence[int] = ()) -> tuple[float, float, int]:
        """Have it plan; seconds, seconds of the processor, and files."""
        assert self._process.stdin is not None  # noqa: S101 - they are pipes
        assert self._process.stdout is not None  # noqa: S101 - likewise
        self._process.stdin.write(" ".join([form, *map(str, ids)]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer "):
                _, wall, processor, files = line.split()
                return float(wall), float(processor), int(files)
        raise RuntimeError(f"{self.name} ended")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def _conditions(form: str, total: int, seed: str) -> Iterator[list[int]]:
    random = Random(seed)
    while True:
        ids = [random.randrange(total) * FACTOR % IDS for _ in range(_IN if form == "in" else 1)]
        yield sorted([ids[0], ids[0] + IDS // 50_000] if form == "range" else ids)


def compare(
    processes: Sequence[_Process], forms: Sequence[str], total: int, count: Callable[[], int]
) -> None:
    """Have planners plan in turns, and print medians.

    ``forms``: of conditions.
    ``total``: rows of the table.
    ``count``: tells the calls of the store so far.
    """
    for form in forms:
        literals = _conditions(form, total, form)
        for _ in range(_FIRST_RUNS):
            _plan_in_turns(processes, (form, "first"), next(literals), count)
        # The first of a process loads code.
        for each in processes:
            del each.took[form, "first"][0]
        for _ in range(_RUNS[form]):
            _plan_in_turns(processes, (form, "warm-up"), next(literals), count)
        for _ in range(_RUNS[form]):
            _plan_in_turns(processes, (form, "warm"), next(literals), count)
    print("| plan | planner | wall ms | processor ms | calls | files |\n|---|---|---:|---:|---:|---:|")
    for form, state in product(forms, ("first", "warm")):
        for each in processes:
            wall, processor, calls, files = map(median, zip(*each.took[form, state], strict=True))
            times = f"{wall * 1e3:,.1f} | {processor * 1e3:,.1f}"
            print(f"| {state} {form} | {each.name} | {times} | {calls:.0f} | {files:.0f} |")


def _plan_in_turns(
    processes: Sequence[_Process], key: tuple[str, str], ids: list[int], count: Callable[[], int]
) -> None:
    form, state = key
    answers = set()
    for each in processes:
        before = count()
        opened = each.ask("open")[:2] if state == "first" else (0.0, 0.0)
        wall, processor, files = each.ask(form, ids)
        each.took[key].append((opened[0] + wall, opened[1] + processor, count() - before, files))
        answers.add(files)
    if len(answers) > 1:
        print(f"planners disagree on {form} {ids[0]}: {answers} files", flush=True)


def _compare(arguments: argparse.Namespace) -> None:
    """Begin the planners and end them."""
    from benchmarks.served_directory import ALL, BUCKET, COUNTS, serve  # noqa: PLC0415 - as above

    with ExitStack() as stack:
        url, environment, count = arguments.directory.absolute().as_uri(), {}, lambda: 0
        if arguments.s3:
            endpoint = stack.enter_context(serve(arguments.directory.parent, 0.02))
            url = f"s3://{BUCKET}/{arguments.directory.name}"
            environment = {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": endpoint,
            }

            def count() -> int:
                with urlopen(endpoint + COUNTS) as response:  # noqa: S310 - our own server
                    return int(json.load(response).get(ALL, 0))

        here = str(Path(__file__))
        commands = {"paimon-index": [sys.executable, here, "ours", url]}
        if arguments.pypaimon:
            commands["pypaimon"] = [arguments.pypaimon, here, "pypaimon", url]
        if arguments.engine:
            program = str(Path(__file__).with_name("GlobalIndexPlans.java"))
            commands["engine, warm JVM"] = ["java", "-Xmx4g", "-cp", arguments.engine, program, url]
        processes = [_Process(name, command, environment) for name, command in commands.items()]
        for each in processes:
            stack.callback(each.close)
        compare(processes, arguments.forms, arguments.rows, count)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("directory", type=Path)
    making.add_argument("files", type=int, nargs="?", default=1_000)
    making.add_argument("rows", type=int, nargs="?", default=10_000)
    comparing = commands.add_parser("compare")
    comparing.add_argument("directory", type=Path)
    comparing.add_argument("--rows", type=int, default=10_000_000, help="of all files")
    comparing.add_argument("--forms", nargs="+", choices=_RUNS, default=[*_RUNS])
    comparing.add_argument("--pypaimon")
    comparing.add_argument("--engine")
    comparing.add_argument("--s3", action="store_true")
    for name in ("ours", "pypaimon"):
        commands.add_parser(name).add_argument("url")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    match given.command:
        case "make":
            make(given.directory, given.files, given.rows)
        case "compare":
            _compare(given)
        case _:
            answer(_Ours(given.url) if given.command == "ours" else _PyPaimon(given.url))
