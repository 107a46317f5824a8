"""Objects of the shared tier: whole, of this name, and of a holder of the key, or not believed."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pyarrow as pa
import pytest
import xxhash

from app.storage.disk.column_entry import Columns, DamagedEntryError, write_columns
from app.storage.disk.disk_tier import FORMAT
from app.storage.shared_object import object_name, read_object, write_object

KEY = b"a key that nobody else has"
NAME = object_name([b"first", b"second"])
DIGESTS = {1: "a4ca17bf4c0531c2"}
"""Of one object, by format."""


def entry(key: bytes, values: list[int]) -> list[bytes | pa.Buffer]:
    column = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))
    return write_columns(key, {"values": column})


def written() -> bytes:
    content = write_object(NAME, KEY, [entry(b"first", [1, 2, 3]), [], entry(b"second", [4])])
    assert content is not None
    return content


def test_entries_come_back_as_they_were() -> None:
    first, nothing, second = read_object(NAME, KEY, written(), 3)

    assert nothing is None
    assert first is not None
    assert second is not None
    assert Columns.read(b"first", first)["values"].to_pylist() == [[1, 2, 3]]
    assert Columns.read(b"second", second)["values"].to_pylist() == [[4]]


def test_names_tell_apart_what_is_made_of_other_files() -> None:
    names = {object_name(keys) for keys in ([b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"c", b"ab"], [])}
    assert len(names) == 5


@pytest.mark.parametrize("at", range(0, len(written()), 7))
def test_a_changed_byte_is_found_wherever_it_is(at: int) -> None:
    content = bytearray(written())
    content[at] ^= 0x40
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, bytes(content), 3)


def test_memory_is_claimed_for_what_a_holder_of_the_key_has_written() -> None:
    claimed: list[int] = []
    content = written()

    read_object(NAME, KEY, content, 3, claimed.append)
    with pytest.raises(DamagedEntryError):
        read_object(NAME, b"another key", content, 3, claimed.append)

    (size,) = claimed
    assert len(content) < size < len(content) + 4096


@pytest.mark.parametrize("length", [0, 3, 19, 55, 60, len(written()) - 1])
def test_what_is_cut_is_not_believed(length: int) -> None:
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, written()[:length], 3)


def test_what_follows_is_not_believed() -> None:
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, written() + b"\0", 3)


def test_only_holders_of_the_key_are_believed() -> None:
    with pytest.raises(DamagedEntryError, match="not signed"):
        read_object(NAME, b"another key of somebody", written(), 3)


def test_an_object_does_not_pass_for_another() -> None:
    with pytest.raises(DamagedEntryError, match="not signed"):
        read_object(object_name([b"third"]), KEY, written(), 3)


def test_an_object_has_as_many_entries_as_it_is_made_of() -> None:
    with pytest.raises(DamagedEntryError, match="expected 2 entries"):
        read_object(NAME, KEY, written(), 2)


def test_another_layout_of_objects_has_another_format() -> None:
    content = write_object(NAME, KEY, [[b"first entry"], [], [b"second", b" entry"]])
    assert content is not None
    ends_at = 56 + 3 * 8
    *_, unpacked_bytes = struct.unpack_from("<4sQQ", content)
    unpacked = pa.decompress(content[ends_at:], unpacked_bytes, "zstd", asbytes=True)

    # Sizes and signatures of what is packed differ between releases of zstd.
    layout = b"".join((content[:4], content[12:20], content[52:ends_at], unpacked))

    told = "raise FORMAT of app/storage/disk/disk_tier.py, and note the digest of the new layout here"
    assert xxhash.xxh3_64_hexdigest(NAME.encode() + layout) == DIGESTS[FORMAT], told
    signed = hmac.new(KEY, NAME.encode() + content[:20] + content[52:], hashlib.sha256)
    assert content[20:52] == signed.digest(), told
