"""Fetches parts of index files: their fronts, and payloads that lie behind those."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.errors import CorruptIndexError, PaimonIndexError
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.file_index.asking import Asked
    from app.file_index.stacked.heads import Heads
    from app.storage import Warehouse

FRONT_BYTES: Final = 8 << 10
"""What the first request for a file reads; a head takes some hundred bytes."""

UNKNOWN_SIZE: Final = 1 << 62
"""In place of a file's size, where it is larger than its front."""

_LONGEST_HEAD: Final = 16 << 20
_HEAD_LENGTH = struct.Struct(">i")
_HEAD_LENGTH_AT: Final = 12


@dataclass(frozen=True, slots=True)
class Front:
    """The beginning of a file.

    Attributes:
        content: a small file as a whole; of any other one its head.
        size: bytes of the file, or :data:`UNKNOWN_SIZE`.
    """

    content: bytes
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """The fronts of some files, by position among those asked for."""

    found: Mapping[int, Front]
    failures: Mapping[int, PaimonIndexError]


@dataclass(frozen=True, slots=True, eq=False)
class Payloads:
    """Payloads of some files.

    Attributes:
        found: by column and kind, shape (n,): null where a file has no such index within its bytes.
        failures: why files cannot be used, by position among those asked for.
    """

    found: Mapping[tuple[str, str], BytesColumn]
    failures: Mapping[int, PaimonIndexError]


def fetch_fronts(warehouse: Warehouse, paths: Sequence[str]) -> Fronts:
    """The fronts of the files at ``paths``.

    Raises:
        DeadlineExceededError: the request's time ran out.
    """
    found: dict[int, Front] = {}
    failures: dict[int, PaimonIndexError] = {}
    longer: dict[int, int] = {}
    read = warehouse.read_ranges([(path, 0, FRONT_BYTES) for path in paths], immutable=True)
    for at, content in enumerate(read):
        if isinstance(content, PaimonIndexError):
            failures[at] = content
        elif len(content) < FRONT_BYTES:
            found[at] = Front(content, len(content))
        else:
            (length,) = _HEAD_LENGTH.unpack_from(content, _HEAD_LENGTH_AT)
            if FRONT_BYTES < length <= _LONGEST_HEAD:
                longer[at] = length
            # A length that cannot be is left to the reader of heads, which tells what is wrong with it.
            found[at] = Front(content[: max(length, _HEAD_LENGTH_AT + _HEAD_LENGTH.size)], UNKNOWN_SIZE)
    heads = warehouse.read_ranges([(paths[at], 0, length) for at, length in longer.items()], immutable=True)
    for at, head in zip(longer, heads, strict=True):
        if isinstance(head, PaimonIndexError):
            failures[at] = head
            del found[at]
        else:
            found[at] = Front(head, UNKNOWN_SIZE)
    return Fronts(found, failures)


def fetch_payloads(
    warehouse: Warehouse, paths: Sequence[str], heads: Heads, places: NDArray[np.int64], asked: Asked
) -> Payloads:
    """The payloads of the asked indexes of some files.

    Args:
        warehouse: where they lie.
        paths: of these files.
        heads: of these and other files.
        places: which of the heads are theirs.
        asked: which indexes.

    Raises:
        DeadlineExceededError: the request's time ran out.
    """
    payloads: dict[tuple[str, str], list[bytes | None]] = {}
    wanted: list[tuple[tuple[str, str], int, int, int]] = []
    for column, kind in sorted(asked):
        extents = heads.extents(column, kind)
        within = extents.within(heads.sizes)[places]
        payloads[column, kind] = [None] * len(places)
        starts, lengths = extents.starts[places].tolist(), extents.lengths[places].tolist()
        wanted += [((column, kind), at, starts[at], lengths[at]) for at in np.flatnonzero(within).tolist()]
    read = warehouse.read_ranges(
        [(paths[at], start, length) for _, at, start, length in wanted], immutable=True
    )
    failures: dict[int, PaimonIndexError] = {}
    for (index, at, start, length), content in zip(wanted, read, strict=True):
        if isinstance(content, PaimonIndexError):
            failures[at] = content
        elif len(content) != length:
            failures[at] = CorruptIndexError(
                f"expected {length} bytes of a payload, found {len(content)}", path=paths[at], offset=start
            )
        else:
            payloads[index][at] = content
    return Payloads({index: BytesColumn.of(found) for index, found in payloads.items()}, failures)
