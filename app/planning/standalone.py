"""Index files of requests without a table.

Callers of the service may name files only where index files are, and by names that only index files have::

    <database>.db/<table>/[...]bucket-<n>/<data file>.index      a file index
    <database>.db/<table>/index/index-<uuid>-<n>                 deletion vectors or a hash index
    <database>.db/<table>/[...]bucket-<n>/index-<uuid>-<n>       both, with index-file-in-data-file-dir
    <database>.db/<table>/index/<kind>-global-index-<uuid>.index a global index
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from app import global_index
from app.bucket_index import hash_index
from app.deletion_vectors import MAGICS, read_file
from app.errors import (
    CorruptIndexError,
    FileMissingError,
    LimitExceededError,
    PathNotAllowedError,
    RequestError,
    StorageError,
)
from app.file_index import FileIndex, inspect
from app.file_index.container import MAGIC
from app.planning.request.requests import IndexFileRef
from app.storage import Warehouse
from app.suggestions import hint
from app.table.manifests import FILE_INDEX_SUFFIX
from app.types import DataType, Json, parse_type

_MAGIC_BYTES = struct.pack(">q", MAGIC)
_VECTORS_VERSION = b"\x01"
_FIRST_MAGIC = slice(5, 9)
_HEAD_BYTES = 9
_LARGEST_BYTES = 256 << 20
_HASH_BYTES = 4

_DATA_FILES: Final = {
    "parquet": "a Parquet data file",
    "orc": "an ORC data file",
    "avro": "an Avro data file",
}
_AVRO_HEAD_BYTES: Final = 4_096

_TABLE = r"[^/]+\.db/[^/]+/"
_BUCKET = r"(?:[^/]+/)*bucket-(?:\d+|postpone)/"
_FILE_INDEX = re.compile(rf"{_TABLE}{_BUCKET}[^/]+\.index")
_BUCKET_INDEX = re.compile(
    rf"{_TABLE}(?:index/|{_BUCKET})index-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}-\d+"
)
_GLOBAL_INDEX = re.compile(rf"{_TABLE}index/(?:btree|bitmap)-global-index-[0-9a-f-]{{36}}\.index")


def inspect_file(
    warehouse: Warehouse,
    file: IndexFileRef,
    kind: str | None,
    types: Mapping[str, str],
    entries: slice,
    *,
    any_place: bool,
) -> Json:
    """Show the content of an index file.

    ``kind``: ``file_index``, ``deletion_vectors``, ``hash``, ``btree`` or ``bitmap``. None detects it.
    ``types``: types of columns by name. Without one, values of the column's indexes are not shown. A global
    index takes one column.
    ``entries``: range of vectors, hashes or blocks to list.

    Raises CorruptIndexError if the file is damaged. Raises LimitExceededError if it is too large to be shown.
    Raises PathNotAllowedError if no index file can have this path. Raises RequestError if a type cannot be
    read, or the kind cannot be detected.
    """
    try:
        return _inspect(warehouse, file, kind, types, entries, any_place=any_place)
    except FileMissingError as error:
        raise _with_suggestion(warehouse, file, error) from error


def _with_suggestion(warehouse: Warehouse, file: IndexFileRef, error: FileMissingError) -> FileMissingError:
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
            return _read_hashes(warehouse, file.path, size, entries)
    with index_content(warehouse, file, any_place=any_place) as (name, content):
        _refuse_data_file(warehouse, file, name, content)
        return _show(name, content, kind, types, entries)


def _show(name: str, content: bytes, kind: str | None, types: Mapping[str, str], entries: slice) -> Json:
    _check_kind(kind, content, name)
    try:
        match kind or _detect_kind(content, name):
            case "file_index":
                parsed = {column: parse_type(written) for column, written in types.items()}
                return {"kind": "file_index", **inspect(FileIndex.read(content), parsed)}
            case "deletion_vectors":
                vectors = _vectors(content)
                return {
                    "kind": "deletion_vectors",
                    "vector_count": len(vectors),
                    "vectors": vectors[entries],
                    "next_offset": _next_offset(entries, len(vectors)),
                }
            case "btree" | "bitmap" as global_kind:
                described = global_index.describe(global_kind, content, _only_type(types), entries)
                count = described.get("block_count")
                following = _next_offset(entries, count) if isinstance(count, int) else None
                return {"kind": global_kind, **described, "next_offset": following}
            case _:
                hashes = hash_index.read(content)
                return {
                    "kind": "hash",
                    "row_count": len(hashes),
                    "hashes": hashes[entries].tolist(),
                    "next_offset": _next_offset(entries, len(hashes)),
                }
    except CorruptIndexError as error:
        raise error.at(name) from error


def _only_type(types: Mapping[str, str]) -> DataType | None:
    """Return the type of a global index's column. Raises RequestError."""
    if not types:
        return None
    if len(types) > 1:
        raise RequestError("a global index is of one column: give the type of this one alone")
    ((column, written),) = types.items()
    data_type = parse_type(written)
    if not global_index.takes(data_type):
        raise RequestError(f"{column}: no global index is of type {data_type}")
    return data_type


def _refuse_data_file(warehouse: Warehouse, file: IndexFileRef, name: str, content: bytes) -> None:
    kind = _data_file_kind(content)
    if kind is None:
        return
    where = ""
    if kind in _DATA_FILES.values():
        where = f": its index is in {name}{FILE_INDEX_SUFFIX}, or in the table's manifest if it is small"
        if file.path is not None and not warehouse.exists(file.path + FILE_INDEX_SUFFIX):
            where += "; beside it there is none"
    raise RequestError(f"{name} is {kind}, and no index file{where}")


def _next_offset(entries: slice, count: int) -> int | None:
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
    is_file_index = path.endswith(FILE_INDEX_SUFFIX) and not global_index.kind_of(path, b"")
    if is_file_index and not head.startswith(_MAGIC_BYTES):
        raise CorruptIndexError("expected a file index", offset=0).at(path)
    return size, head


def _check_kind(kind: str | None, head: bytes, name: str) -> None:
    if kind != "hash":
        return
    if global_index.kind_of(name, b""):
        raise CorruptIndexError("expected a hash index, found a global index", offset=0).at(name)
    if name.endswith(FILE_INDEX_SUFFIX) or head.startswith(_MAGIC_BYTES):
        raise CorruptIndexError("expected a hash index, found a file index", offset=0).at(name)
    if _is_vectors(head):
        raise CorruptIndexError("expected a hash index, found deletion vectors", offset=0).at(name)


def _read_hashes(warehouse: Warehouse, path: str, size: int, entries: slice) -> Json:
    if size % _HASH_BYTES:
        raise CorruptIndexError(f"expected key hashes of {_HASH_BYTES} bytes, found {size} bytes").at(path)
    count = size // _HASH_BYTES
    start, stop, _ = entries.indices(count)
    size_bytes = _HASH_BYTES * max(0, stop - start)
    (content,) = warehouse.read_ranges([(path, _HASH_BYTES * start, size_bytes)])
    if isinstance(content, Exception):
        raise content
    return {
        "kind": "hash",
        "row_count": count,
        "hashes": hash_index.read(content).tolist(),
        "next_offset": _next_offset(entries, count),
    }


def _detect_kind(content: bytes, name: str) -> str:
    if kind := global_index.kind_of(name, content):
        return kind
    if name.endswith(FILE_INDEX_SUFFIX) or content.startswith(_MAGIC_BYTES):
        return "file_index"
    if _is_vectors(content):
        return "deletion_vectors"
    # A hash index has no magic number, so it comes last.
    if len(content) % _HASH_BYTES == 0:
        return "hash"
    raise RequestError(
        f"the kind of {name} cannot be detected: "
        "set kind to file_index, deletion_vectors, hash, btree or bitmap"
    )


def _is_vectors(content: bytes) -> bool:
    if not content.startswith(_VECTORS_VERSION):
        return False
    # A file without vectors is its version byte alone; otherwise the first vector has a magic number.
    return content == _VECTORS_VERSION or content[_FIRST_MAGIC] in MAGICS


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
def index_content(
    warehouse: Warehouse, file: IndexFileRef, *, any_place: bool
) -> Iterator[tuple[str, bytes]]:
    """Open an index file that a caller names or sends. Yield its name and its bytes.

    Raises PathNotAllowedError if no index file can be there, unless ``any_place``.
    """
    if file.path is None:
        yield file.name or "content", file.content or b""
        return
    if not any_place:
        check_index_place(file.path)
    with warehouse.reading(file.path, None, is_kept=False) as content:
        yield file.name or file.path, bytes(content)


def _data_file_kind(content: bytes) -> str | None:
    if content.startswith(b"PAR1") and content.endswith(b"PAR1"):
        return _DATA_FILES["parquet"]
    if content.startswith(b"ORC") and content[-4:-1] == b"ORC":
        return _DATA_FILES["orc"]
    if content.startswith(b"Obj\x01") and b"avro.schema" in content[:_AVRO_HEAD_BYTES]:
        return "a manifest in Avro" if b"_FILE_NAME" in content[:_AVRO_HEAD_BYTES] else _DATA_FILES["avro"]
    return None


def check_index_place(path: str) -> None:
    """Raise PathNotAllowedError unless an index file can have this path."""
    # A hash index has no magic number: without a rule for its name, any file could be read as one.
    if not any(place.fullmatch(path) for place in (_FILE_INDEX, _BUCKET_INDEX, _GLOBAL_INDEX)):
        by_name = _DATA_FILES.get(path.rpartition(".")[2].lower())
        if by_name is not None:
            raise PathNotAllowedError(
                f"{path!r} is {by_name} by its name, and no index file: ask for {path + FILE_INDEX_SUFFIX!r}",
                path=path,
            )
        raise PathNotAllowedError(
            f"{path!r} is not a place of index files: "
            "expected DATABASE.db/TABLE/.../bucket-0/DATA_FILE.index, DATABASE.db/TABLE/index/index-UUID-0 "
            "or DATABASE.db/TABLE/index/btree-global-index-UUID.index",
            path=path,
        )
