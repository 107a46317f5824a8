"""Files of arrays that are mapped into memory, not read: what was decoded once, for all processes.

=================  ==============  ===================================================================
offset             type            meaning
=================  ==============  ===================================================================
0                  4 bytes         ``ARR1``
4                  u32, little     *h*, length of the header
8                  u64, little     xxh3_64 of the header
16                 JSON, UTF-8     the header: ``key`` of the file, ``size`` of all blocks, and
                                   ``blocks``: offset behind the header, bytes, xxh3_64 and contents of
                                   each by its name. The contents are JSON again, which is read when
                                   somebody asks for the block: its ``facts`` (any JSON), and dtype,
                                   length and offset of its ``arrays`` by their names.
16 + *h*, padded   bytes           the blocks; offsets of blocks and arrays are multiples of 64
=================  ==============  ===================================================================

Arrays that are used together lie in one block. The header is verified when a file is mapped, a block when one
of its arrays is first asked for: a file may have many arrays of which nobody asks but a few, and pages that
nobody touches take no memory.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from app import regular_files
from app.mapped_bytes import MappedBytes

MODE: Final = 0o400
"""Of files that are mapped: who opens one by its name cannot write to it, and so cannot cut it."""

_MAGIC: Final = b"ARR1"
_HEAD: Final = struct.Struct("<4sIQ")
_ALIGNMENT: Final = 64
_DTYPES: Final = {"|u1", "|i1", "|b1", "<i4", "<i8", "<f8"}


class DamagedArraysError(Exception):
    """A file of arrays is not what was written; whoever holds it reads the original instead."""


class Block(NamedTuple):
    """Arrays that are used together, by name, of shape (n,); those of a file nobody can write to."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Any


class ArrayFile:
    """A file of arrays, which stays mapped as long as one of them is held."""

    def __init__(self, mapped: MappedBytes, start: int, header: Mapping[str, Any]) -> None:
        self._mapped = mapped
        self._start = start
        self._blocks: dict[str, tuple[int, int, int, str]] = header["blocks"]

    @classmethod
    def map(cls, path: str, key: bytes) -> tuple[Self, os.stat_result]:
        """Maps a file; gives also what the system says of it.

        Raises:
            OSError: there is none of this user, or it cannot be mapped.
            DamagedArraysError: it is not what was written under this key.
        """
        with opened(path) as (descriptor, status):
            try:
                mapped = MappedBytes.map(descriptor)
                magic, length, checksum = _HEAD.unpack_from(mapped.data)
                written = mapped[_HEAD.size : _HEAD.size + length].tobytes()
                if magic != _MAGIC or xxhash.xxh3_64_intdigest(written) != checksum:
                    raise DamagedArraysError("the header is damaged")
                header = orjson.loads(written)
                start = _padded(_HEAD.size + length)
                if header["key"] != key.decode("ascii") or header["size"] != len(mapped) - start:
                    raise DamagedArraysError("another file, or a part of it")
            except (ValueError, struct.error) as error:
                raise DamagedArraysError(str(error)) from error
        return cls(mapped, start, header), status

    def length(self, block: str, array: str) -> int:
        """How many items an array has; its block is not looked at."""
        length: int = _contents(self._blocks[block][3])["arrays"][array][1]
        return length

    def block(self, name: str) -> Block:
        """A block of the file."""
        offset, size, checksum, contents = self._blocks[name]
        first = self._start + offset
        if xxhash.xxh3_64_intdigest(self._mapped[first : first + size].data) != checksum:
            raise DamagedArraysError(f"block {name!r} is damaged")
        found = _contents(contents)
        arrays: dict[str, NDArray[Any]] = {
            array: np.ndarray((count,), dtype, self._mapped, first + at)
            for array, (dtype, count, at) in found["arrays"].items()
        }
        return Block(arrays, found["facts"])


@contextmanager
def opened(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a file of this user, and what the system says of it."""
    # A link may lead anywhere.
    with regular_files.opened(path, os.O_NOFOLLOW) as (descriptor, status):
        if status.st_uid != os.geteuid():
            raise FileNotFoundError(f"{path} is no file of this user")
        yield descriptor, status


def array_file_parts(key: bytes, blocks: Mapping[str, Block]) -> list[bytes | memoryview]:
    """The bytes of a file of arrays, piece by piece.

    Its key is ASCII; arrays are of booleans, bytes, or numbers of a width that the format has.
    """
    parts: list[bytes | memoryview] = []
    listed: dict[str, tuple[int, int, int, str]] = {}
    size = 0
    for name, block in blocks.items():
        checksum, arrays, at = xxhash.xxh3_64(), {}, 0
        for array_name, array in block.arrays.items():
            if array.dtype.str not in _DTYPES:
                raise ValueError(f"array {array_name!r} is of {array.dtype}")
            arrays[array_name] = (array.dtype.str, len(array), at)
            padding = bytes(_padded(array.nbytes) - array.nbytes)
            for part in (np.ascontiguousarray(array).view(np.uint8).data, padding):
                checksum.update(part)
                parts.append(part)
            at += _padded(array.nbytes)
        contents = json.dumps({"facts": block.facts, "arrays": arrays}, separators=(",", ":"))
        listed[name] = (size, at, checksum.intdigest(), contents)
        size += at
    header = {"key": key.decode("ascii"), "size": size, "blocks": listed}
    written = json.dumps(header, separators=(",", ":")).encode()
    head = _HEAD.pack(_MAGIC, len(written), xxhash.xxh3_64_intdigest(written)) + written
    return [head.ljust(_padded(len(head)), b"\0"), *parts]


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


@lru_cache(1 << 10)
def _contents(written: str) -> Any:
    return json.loads(written)
