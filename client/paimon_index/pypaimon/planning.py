"""A pypaimon table at a snapshot that names only the files of a plan.

Splits, merging and deletion vectors are pypaimon's own: it reads that snapshot and its manifests from memory
in place of the table's. Scans of a table with data evolution also get the ids of the rows to read, as if
pypaimon's own index had found the rows. See "Pruned snapshots" in ``docs/api.md`` of the service.
"""

from __future__ import annotations

import copy
import io
import json
import re
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paimon_index.attempts import Replicas, check_seconds, check_token
from paimon_index.client import Client, download
from paimon_index.errors import IncompleteAnswerError, PaimonIndexError
from paimon_index.pypaimon.filters import to_json
from paimon_index.requests import TableName, get, post

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MOST_BYTES: Final = 64 << 20
_MOST_ENTRIES: Final = 20_000
_MOST_SHARE: Final = 0.5
_HARMLESS: Final = re.compile(
    r"read\.batch-size|read\.native\.enabled|scan\.(manifest\.parallelism|native-plan\.enabled)|source\.split\..*"
    r"|(global|scalar)-index\.search-mode|global-index\.thread-num"
)
_UNPLANNED: Final = re.compile(
    r"(scan|incremental-between|consumer|streaming|query-auth|chain-table)\b.*"
    r"|branch|batch-scan-mode|.*merge-on-read|pk-.*\.index\.columns"
)
"""Options by which pypaimon reads something else, or has an index of its own that needs all files."""
_WRITING: Final = re.compile(
    r"(write|copy|delete|overwrite|try_to_write)_?.*|new_output_stream|.*mkdirs|rename"
)


class UnplannedWarning(UserWarning):
    """Warns that pypaimon plans without the service, and why."""


def planned(
    table: Any,
    predicate: Any,
    url: str | Sequence[str],
    *,
    warehouse: str | None = None,
    token: str | None = None,
    timeout_seconds: float = 2.0,
) -> Any:
    """Return the table for reading with a predicate: it has only files that can match.

    Its read builders need the same ``with_filter(predicate)``. The table is returned unchanged if the service
    keeps most files or, with an :class:`UnplannedWarning`, if it cannot plan in time. ``table`` is
    pypaimon's. Its ``new_read_builder().new_predicate_builder()`` makes ``predicate``. Several URLs are
    tried in turn. Without ``warehouse`` the table's URL determines it.

    Raises TypeError or ValueError if an argument is invalid for every table and service.
    """
    if not hasattr(table, "new_read_builder"):
        raise TypeError(f"table is a {type(table).__name__}: give what pypaimon's catalog.get_table returns")
    if not hasattr(predicate, "method"):
        raise TypeError(
            f"predicate is a {type(predicate).__name__}: build it with "
            f"table.new_read_builder().new_predicate_builder(), or read the table itself without one"
        )
    check_seconds("timeout_seconds", timeout_seconds)
    check_token(token)
    Replicas(url)
    # In a thread: timeouts of sockets cover neither look-ups of hosts nor answers that arrive byte by byte.
    asking = ThreadPoolExecutor(1)
    try:
        _, database, name = table.table_path.rstrip("/").rsplit("/", 2)
        members = {**_question(table, predicate), "budget_ms": int(timeout_seconds * 500)}

        def ask() -> bytes:
            with Client(url, token=token, deadline_seconds=timeout_seconds, retries=0) as client:
                # A copy of the warehouse has another URL.
                of, location = (warehouse, None) if warehouse else _warehouse(client, table.table_path)
                path = TableName(of, database.removesuffix(".db"), name).path + "/pruned-snapshot"
                question = post(path, {**members, "location": location}, "application/zip")
                return download(client, question, _MOST_BYTES)

        answer = asking.submit(ask)
        own = table.snapshot_manager().get_latest_snapshot()
        return _pruned(table, predicate, own, _entries(answer.result(timeout_seconds)))
    except Exception as error:  # noqa: BLE001 - after any error pypaimon plans
        reason = f"{type(error).__name__}: {error}" if str(error) else "no answer in time"
        warnings.warn(f"pypaimon plans without paimon-index: {reason:.500}", UnplannedWarning, stacklevel=2)
        return table
    finally:
        asking.shutdown(wait=False)


def _question(table: Any, predicate: Any) -> dict[str, Any]:
    given = getattr(table, "_applied_dynamic_options", {})
    for key in {**table.options.options.to_map(), **given}:
        if (key in given or _UNPLANNED.fullmatch(key)) and not _HARMLESS.fullmatch(key):
            raise PaimonIndexError(f"the option {key} is in force")
    if hasattr(table, "_read_snapshot") or table.current_branch() != "main":
        raise PaimonIndexError("another version or branch is read")
    types = {field.name: str(field.type) for field in table.fields}
    if (condition := to_json(predicate, types, table.partition_keys)) is None:
        raise PaimonIndexError("no part of the predicate means the same to Spark")
    return {"filter": condition, "max_staleness_ms": 0, "most_share": _MOST_SHARE}


def _warehouse(client: Client, location: str) -> tuple[str, str]:
    """Return the warehouse that holds a table, and the table's URL in the service's spelling."""

    def place(url: str) -> str:
        local = re.sub(r"^file:/+", "/", url)
        return re.sub(r"^s3[an]:", "s3:", url.rstrip("/")) if ":" in local else str(Path(local).resolve())

    urls = json.loads(download(client, get("/v1/config"), _MOST_BYTES))["warehouse_urls"]
    roots = {place(url): name for name, url in urls.items()}
    root = max((each for each in roots if place(location).startswith(f"{each}/")), key=len, default=None)
    if root is None:
        raise PaimonIndexError(f"{location} is in no warehouse of the service: name one of {urls}")
    return roots[root], urls[roots[root]].rstrip("/") + place(location).removeprefix(root)


def _entries(body: bytes) -> dict[str, bytes]:
    """Read the files of an archive, within bounds, since any server may answer at the URL."""
    if body.count(b"PK\1\2") > _MOST_ENTRIES:
        raise IncompleteAnswerError(f"the archive has more than {_MOST_ENTRIES} entries")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        entries = archive.infolist()
        # Uncompressed entries bound the memory; but entries may overlap.
        if any(entry.compress_type for entry in entries) or sum(e.file_size for e in entries) > _MOST_BYTES:
            raise IncompleteAnswerError("the archive is none of the service's")
        return {entry.filename.rpartition("/")[2]: archive.read(entry) for entry in entries}


def _pruned(table: Any, predicate: Any, own: Any, files: dict[str, bytes]) -> Any:
    answer = json.loads(files.pop("answer.json"))
    if own is not None and (answer["snapshot_id"] or 0) > own.id:
        own = table.snapshot_manager().get_snapshot_by_id(answer["snapshot_id"])
    read = [own and own.id, own and own.delta_manifest_list, table.table_schema.id]
    if (answered := [answer[each] for each in ("snapshot_id", "delta_manifest_list", "schema_id")]) != read:
        raise PaimonIndexError(f"it planned {answered} (snapshot, its delta, schema), and {read} is read")
    if answer["document"] is None and not answer["summary"]["complete"]:
        # For example indexes that were not read in time; the next plan has them.
        raise PaimonIndexError("; ".join(answer["warnings"]))
    if answer["document"] is None:
        return table
    from pypaimon.common.json_util import JSON  # noqa: PLC0415 - an extra
    from pypaimon.snapshot.snapshot import Snapshot  # noqa: PLC0415 - an extra

    # The native planner would read the table's own snapshot of that number, and the scan ask indexes again.
    off = dict.fromkeys(("scan.native-plan.enabled", "read.native.enabled", "global-index.enabled"), "false")
    snapshot = JSON.from_json(json.dumps(answer["document"]), Snapshot)
    pruned = table.copy_without_time_travel(off)._copy_with_snapshot(snapshot)  # noqa: SLF001 - its one way
    # A copy, since pypaimon checks the class.
    pruned.file_io = copy.copy(table.file_io)
    for name in dir(table.file_io):
        if _WRITING.fullmatch(name):
            setattr(pruned.file_io, name, _refuse)
        elif name in ("new_input_stream", "_new_input_stream_with_known_size"):
            setattr(pruned.file_io, name, partial(_open, getattr(table.file_io, name), files))
    if answer.get("row_ranges") is not None:
        pruned.new_read_builder = partial(_read_builder, pruned, answer["row_ranges"])
    # Errors of pypaimon's planning are raised here, before the caller reads.
    pruned.new_read_builder().with_filter(predicate).new_scan().plan()
    return pruned


def _read_builder(table: Any, ranges: Sequence[Sequence[int]]) -> Any:
    """Make the table's read builder. Its scans return these row ids where they would ask indexes."""
    builder = type(table).new_read_builder(table)
    builder.new_scan = partial(_scan, builder, ranges)
    return builder


def _scan(builder: Any, ranges: Sequence[Sequence[int]]) -> Any:
    from pypaimon.globalindex.global_index_result import GlobalIndexResult  # noqa: PLC0415 - an extra
    from pypaimon.utils.range import Range  # noqa: PLC0415 - an extra

    scan = type(builder).new_scan(builder)
    # The public setters fail where the caller sets row ids of a search, which take the place of these here.
    scan.file_scanner._eval_global_index = lambda *_: (  # noqa: SLF001 - a release without it reads whole files
        GlobalIndexResult.from_ranges([Range(*each) for each in ranges])
    )
    return scan


def _refuse(*_: object, **__: object) -> None:
    raise PaimonIndexError("a planned table is only read: write to the table itself")


def _open(otherwise: Callable[..., Any], files: Mapping[str, bytes], path: str, *size: object) -> Any:
    name = path.rpartition("/")[2]
    return io.BytesIO(files[name]) if name in files else otherwise(path, *size)
