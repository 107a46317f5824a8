"""Objects of the shared tier: whole, of this name, and of a holder of the key, or not believed."""

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
NAME = object_name(b"first")
DIGESTS = {3: "b38fbc96a019d6ad"}
"""Of one object, by format."""


def written() -> bytes:
    column = pa.LargeListArray.from_arrays(pa.array([0, 3], pa.int64()), pa.array([1, 2, 3]))
    content = write_object(NAME, KEY, write_columns(b"first", {"values": column}))
    assert content is not None
    return content


def test_an_entry_comes_back_as_it_was() -> None:
    entry = read_object(NAME, KEY, written())

    assert Columns.read(b"first", entry)["values"].to_pylist() == [[1, 2, 3]]


@pytest.mark.parametrize("at", range(0, len(written()), 7))
def test_a_changed_byte_is_found_wherever_it_is(at: int) -> None:
    content = bytearray(written())
    content[at] ^= 0x40
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, bytes(content))


def test_memory_is_claimed_for_what_a_holder_of_the_key_has_written() -> None:
    claimed: list[int] = []
    content = written()

    read_object(NAME, KEY, content, claimed.append)
    with pytest.raises(DamagedEntryError):
        read_object(NAME, b"another key", content, claimed.append)

    (size,) = claimed
    assert len(content) < size < len(content) + 4096


@pytest.mark.parametrize("length", [0, 3, 19, 55, 60, len(written()) - 1])
def test_what_is_cut_is_not_believed(length: int) -> None:
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, written()[:length])


def test_what_follows_is_not_believed() -> None:
    with pytest.raises(DamagedEntryError):
        read_object(NAME, KEY, written() + b"\0")


def test_only_holders_of_the_key_are_believed() -> None:
    with pytest.raises(DamagedEntryError, match="not signed"):
        read_object(NAME, b"another key of somebody", written())


def test_an_object_does_not_pass_for_another() -> None:
    with pytest.raises(DamagedEntryError, match="not signed"):
        read_object(object_name(b"third"), KEY, written())


def test_another_layout_of_objects_has_another_format() -> None:
    content = write_object(NAME, KEY, [b"an", b" entry"])
    assert content is not None
    *_, unpacked_bytes = struct.unpack_from("<4sQQ", content)
    unpacked = pa.decompress(content[52:], unpacked_bytes, "zstd", asbytes=True)

    # Sizes and signatures of what is packed differ between releases of zstd.
    layout = b"".join((content[:4], content[12:20], unpacked))

    told = "raise FORMAT of app/storage/disk/disk_tier.py, and note the digest of the new layout here"
    assert xxhash.xxh3_64_hexdigest(NAME.encode() + layout) == DIGESTS[FORMAT], told
    signed = hmac.new(KEY, NAME.encode() + content[:20] + content[52:], hashlib.sha256)
    assert content[20:52] == signed.digest(), told
