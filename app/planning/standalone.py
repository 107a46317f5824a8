"""Index files on their own, without a table: what they say of a filter, and what is in them.

Callers of the service may name files only where index files lie, and by the names that only these have::

    <database>.db/<table>/[...]bucket-<n>/<data file>.index      a file index
    <database>.db/<table>/index/index-<uuid>-<n>                 deletion vectors or a hash index
    <database>.db/<table>/[...]bucket-<n>/index-<uuid>-<n>       likewise, with index-file-in-data-file-dir

A hash index has no mark that tells it from other bytes, so without its name any file of a warehouse could be
read as one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from app.bucket_index import hash_index
from app.deletion_vectors import read_file, vector32, vector64
from app.errors import (
    CorruptIndexError,
    DeadlineExceededError,
    FileMissingError,
    FilterError,
    LimitExceededError,
    PathNotAllowedError,
    RequestError,
    StorageError,
    UnsupportedFormatError,
)
from app.file_index.answers.result import SKIP, Result, Rows, Step
from app.file_index.container import MAGIC
from app.file_index.evaluation import evaluate
from app.file_index.inspect import inspect
from app.file_index.stacked_index import FileIndex
from app.file_index.top_n import indexed_rows, top_n
from app.planning.plan.file_plan import ExplainStep
from app.planning.request.budget import UNBOUNDED, asks_much, unasked_warnings
from app.planning.request.limits import Limits
from app.planning.request.requests import EvaluateRequest, IndexFileRef, filter_warnings, read_filter
from app.predicates.binding.names import Names, Relation
from app.predicates.model import BoundPredicate, Unknown
from app.storage import Warehouse
from app.suggestions import hint
from app.types import DataField, Json, parse_type
from app.types.roaring import Positions
from app.types.session_zone import SessionZone
from app.work import check_deadline


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    """What the indexes of one file say.

    ``selection``: rows outside of which nothing matches; None when nothing is known at row level. ``error``:
    the file's indexes could not be used; the file is kept.
    """

    name: str
    skip: bool
    selection: Positions | None
    explain: tuple[ExplainStep, ...] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """The answer to an EvaluateRequest, in request order."""

    files: tuple[EvaluatedFile, ...]
    warnings: tuple[str, ...] = ()


_MAGIC_BYTES = struct.pack(">q", MAGIC)
_VECTORS_VERSION = b"\x01"
_FIRST_MAGIC = slice(5, 9)
_HEAD_BYTES = 9
_LARGEST_BYTES = 256 << 20
_HASH_BYTES = 4
_REPORTED = (CorruptIndexError, StorageError, UnsupportedFormatError, PathNotAllowedError, FilterError)


def evaluate_files(
    warehouse: Warehouse,
    request: EvaluateRequest,
    limits: Limits,
    zone: SessionZone | None,
    *,
    any_place: bool,
) -> EvaluateAnswer:
    """What the indexes of each file say; a file that cannot be used is reported, the others are answered.

    Raises FilterError: the filter does not fit the schema. Raises RequestError: a type of the schema cannot
    be read.
    """
    fields = [DataField(at, name, parse_type(written)) for at, (name, written) in enumerate(request.schema)]
    relation = Relation(request.alias)
    predicate = read_filter(request.filter, fields, limits, relation, zone, request.in_lists)
    sort_column = None
    if request.top_n is not None:
        if not request.top_n.order_by:
            raise FilterError("top_n needs at least one column in order_by")
        names = Names(fields, relation)
        columns = [names.sort_column(key.column) for key in request.top_n.order_by]
        sort_column = columns[0]
    budget, asks_all, unasked = UNBOUNDED.before_deadline(), not asks_much(predicate), 0
    files = []
    for file in request.files:
        is_asked = asks_all or not budget.out_of_time()
        unasked += not is_asked
        asked = predicate if is_asked else Unknown("a long filter")
        files.append(_evaluate(warehouse, file, request, asked, sort_column, any_place=any_place))
    return EvaluateAnswer(tuple(files), (*filter_warnings(predicate), *unasked_warnings(unasked)))


def inspect_file(
    warehouse: Warehouse,
    file: IndexFileRef,
    kind: str | None,
    types: Mapping[str, str],
    entries: slice,
    *,
    any_place: bool,
) -> Json:
    """What is in an index file.

    Args:
        kind: ``file_index``, ``deletion_vectors`` or ``hash``; None tells it from the first bytes.
        types: types of columns by name; without one, only that is told which needs none.
        entries: which vectors or hashes are listed, of all that there are.

    Raises:
        CorruptIndexError: the file is damaged.
        LimitExceededError: it is too large to be shown.
        PathNotAllowedError: the path is none of an index file.
        RequestError: a type cannot be read, or the kind cannot be told.
    """
    try:
        return _inspect(warehouse, file, kind, types, entries, any_place=any_place)
    except FileMissingError as error:
        raise _missing(warehouse, file, error) from error


def _missing(warehouse: Warehouse, file: IndexFileRef, error: FileMissingError) -> FileMissingError:
    directory, _, name = (file.path or "").rpartition("/")
    try:
        suggestion = hint(name, warehouse.list_names(directory))
    except StorageError:
        suggestion = ""
    return FileMissingError(f"there is no file {file.name or file.path}{suggestion}", path=error.path)


def _inspect(
    warehouse: Warehouse,
    file: IndexFileRef,
    kind: str | None,
    types: Mapping[str, str],
    entries: slice,
    *,
    any_place: bool,
) -> Json:
    if file.path is not None and not any_place:
        check_index_place(file.path)
        size, head = _check_file(warehouse, file.path)
        _check_kind(kind, head, file.path)
        if kind in (None, "hash") and not file.path.endswith(FILE_INDEX_SUFFIX) and not _is_vectors(head):
            return _some_hashes(warehouse, file.path, size, entries)
    with _content(warehouse, file, any_place=any_place) as (name, content):
        _refuse_data_file(warehouse, file, name, content)
        return _shown(name, content, kind, types, entries)


def _shown(name: str, content: bytes, kind: str | None, types: Mapping[str, str], entries: slice) -> Json:
    _check_kind(kind, content, name)
    try:
        match kind or _kind_of(content, name):
            case "file_index":
                parsed = {column: parse_type(written) for column, written in types.items()}
                return {"kind": "file_index", **inspect(FileIndex.read(content), parsed)}
            case "deletion_vectors":
                vectors = _vectors(content)
                return {
                    "kind": "deletion_vectors",
                    "vector_count": len(vectors),
                    "vectors": vectors[entries],
                    "next_offset": _next(entries, len(vectors)),
                }
            case _:
                hashes = hash_index.read(content)
                return {
                    "kind": "hash",
                    "row_count": len(hashes),
                    "hashes": hashes[entries].tolist(),
                    "next_offset": _next(entries, len(hashes)),
                }
    except CorruptIndexError as error:
        raise error.at(name) from error


def _refuse_data_file(warehouse: Warehouse, file: IndexFileRef, name: str, content: bytes) -> None:
    kind = _data_file(content)
    if kind is None:
        return
    where = ""
    if kind in _DATA_FILES.values():
        where = f": its index is in {name}{FILE_INDEX_SUFFIX}, or in the table's manifest if it is small"
        if file.path is not None and not warehouse.exists(file.path + FILE_INDEX_SUFFIX):
            where += "; beside it there is none"
    raise RequestError(f"{name} is {kind}, and no index file{where}")


def _next(entries: slice, count: int) -> int | None:
    return entries.stop if entries.stop is not None and entries.stop < count else None


def _check_file(warehouse: Warehouse, path: str) -> tuple[int, bytes]:
    size = warehouse.size(path)
    if size > _LARGEST_BYTES:
        raise LimitExceededError(
            f"{path} has {size} bytes, and files of at most {_LARGEST_BYTES} are shown", limit=_LARGEST_BYTES
        )
    (head,) = warehouse.read_ranges([(path, 0, _HEAD_BYTES)])
    if isinstance(head, Exception):
        raise head
    if path.endswith(FILE_INDEX_SUFFIX) and not head.startswith(_MAGIC_BYTES):
        raise CorruptIndexError("expected a file index", offset=0).at(path)
    return size, head


def _check_kind(kind: str | None, head: bytes, name: str) -> None:
    if kind != "hash":
        return
    if name.endswith(FILE_INDEX_SUFFIX) or head.startswith(_MAGIC_BYTES):
        raise CorruptIndexError("expected a hash index, found a file index", offset=0).at(name)
    if _is_vectors(head):
        raise CorruptIndexError("expected a hash index, found deletion vectors", offset=0).at(name)


def _some_hashes(warehouse: Warehouse, path: str, size: int, entries: slice) -> Json:
    if size % _HASH_BYTES:
        raise CorruptIndexError(f"expected key hashes of {_HASH_BYTES} bytes, found {size} bytes").at(path)
    count = size // _HASH_BYTES
    start, stop, _ = entries.indices(count)
    wanted = _HASH_BYTES * max(0, stop - start)
    (content,) = warehouse.read_ranges([(path, _HASH_BYTES * start, wanted)])
    if isinstance(content, Exception):
        raise content
    return {
        "kind": "hash",
        "row_count": count,
        "hashes": hash_index.read(content).tolist(),
        "next_offset": _next(entries, count),
    }


def _kind_of(content: bytes, name: str) -> str:
    """What a file is, by its name and bytes; hash indexes have no mark, so they are what is left."""
    if name.endswith(FILE_INDEX_SUFFIX) or content.startswith(_MAGIC_BYTES):
        return "file_index"
    if _is_vectors(content):
        return "deletion_vectors"
    if len(content) % _HASH_BYTES == 0:
        return "hash"
    raise RequestError(f"{name} does not tell what it is: say kind file_index, deletion_vectors or hash")


def _is_vectors(content: bytes) -> bool:
    """Whether the first vector has its magic; a file without vectors is its version alone."""
    if not content.startswith(_VECTORS_VERSION):
        return False
    return content == _VECTORS_VERSION or content[_FIRST_MAGIC] in (vector32.MAGIC, vector64.MAGIC)


def _vectors(content: bytes) -> list[Json]:
    listed: list[Json] = []
    offset = 1
    for vector in read_file(content):
        listed.append(
            {
                "offset": offset,
                "size": vector.record_bytes,
                "bits": 64 if vector.is64 else 32,
                "cardinality": vector.cardinality,
                "highest": vector.highest,
            }
        )
        offset += vector.record_bytes
    return listed


@contextmanager
def _content(warehouse: Warehouse, file: IndexFileRef, *, any_place: bool) -> Iterator[tuple[str, bytes]]:
    if file.content is not None:
        yield file.name or "content", file.content
        return
    if file.path is None:
        raise RequestError("an index file is given by its path or its content")
    if not any_place:
        check_index_place(file.path)
    with warehouse.reading(file.path, None, is_kept=False) as content:
        yield file.name or file.path, bytes(content)


def _evaluate(
    warehouse: Warehouse,
    file: IndexFileRef,
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
    *,
    any_place: bool,
) -> EvaluatedFile:
    check_deadline()
    name = file.name or file.path or "content"
    trace: list[Step] = []
    try:
        with _content(warehouse, file, any_place=any_place) as (name, content):
            answer = _ask(FileIndex.read(content), request, predicate, sort_column, trace)
    except DeadlineExceededError:
        raise
    except _REPORTED as error:
        shown = error.at(name) if isinstance(error, CorruptIndexError) else error
        return EvaluatedFile(name, skip=False, selection=None, error=shown)
    steps = tuple(ExplainStep.of(step) for step in trace) if request.explain else None
    positions = answer.positions if isinstance(answer, Rows) else None
    return EvaluatedFile(name, answer is SKIP, positions, steps)


def _ask(
    index: FileIndex,
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
    trace: list[Step],
) -> Result:
    top_rows, row_count = request.top_n, request.row_count
    if top_rows is None or sort_column is None:
        return evaluate(predicate, index, row_count=row_count, trace=trace)
    # Without a filter every row is in question, and only an index can tell how many there are.
    known = row_count if row_count is not None else indexed_rows(index, sort_column)
    first = top_rows.order_by[0]
    return top_n(
        index,
        sort_column,
        descending=first.descending,
        nulls_first=first.nulls_first,
        limit=top_rows.limit,
        strict=len(top_rows.order_by) == 1,
        selection=evaluate(predicate, index, row_count=known, trace=trace),
    )


_DATA_FILES: Final = {
    "parquet": "a Parquet data file",
    "orc": "an ORC data file",
    "avro": "an Avro data file",
}
_AVRO_HEAD_BYTES: Final = 4_096


def _data_file(content: bytes) -> str | None:
    if content.startswith(b"PAR1") and content.endswith(b"PAR1"):
        return _DATA_FILES["parquet"]
    if content.startswith(b"ORC") and content[-4:-1] == b"ORC":
        return _DATA_FILES["orc"]
    if content.startswith(b"Obj\x01") and b"avro.schema" in content[:_AVRO_HEAD_BYTES]:
        return "a manifest in Avro" if b"_FILE_NAME" in content[:_AVRO_HEAD_BYTES] else _DATA_FILES["avro"]
    return None


_TABLE = r"[^/]+\.db/[^/]+/"
_BUCKET = r"(?:[^/]+/)*bucket-(?:\d+|postpone)/"
_FILE_INDEX = re.compile(rf"{_TABLE}{_BUCKET}[^/]+\.index")
_BUCKET_INDEX = re.compile(
    rf"{_TABLE}(?:index/|{_BUCKET})index-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}-\d+"
)

FILE_INDEX_SUFFIX = ".index"


def check_index_place(path: str) -> None:
    """Lets paths of index files pass, and no others."""
    if not _FILE_INDEX.fullmatch(path) and not _BUCKET_INDEX.fullmatch(path):
        by_name = _DATA_FILES.get(path.rpartition(".")[2].lower())
        if by_name is not None:
            raise PathNotAllowedError(
                f"{path!r} is {by_name} by its name, and no index file: ask for {path + FILE_INDEX_SUFFIX!r}",
                path=path,
            )
        raise PathNotAllowedError(
            f"{path!r} is no place of an index file: expected DATABASE.db/TABLE/.../bucket-0/DATA_FILE.index "
            f"or DATABASE.db/TABLE/index/index-UUID-0",
            path=path,
        )
