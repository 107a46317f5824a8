"""What arrays take of a process's memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.mapped_bytes import MappedBytes
from app.types.array_memory import own_bytes
from app.types.bytes_column import BytesColumn


def test_arrays_take_their_items() -> None:
    assert own_bytes(np.arange(10)) == own_bytes(np.arange(20)[::2]) == 80
    assert own_bytes(np.zeros(0)) == 0


def test_arrays_of_one_number_take_one_item() -> None:
    assert own_bytes(np.broadcast_to(np.int32(7), 1000)) == 4
    nulls = BytesColumn.nulls(1000)
    assert list(nulls) == [None] * 1000
    assert own_bytes(nulls.starts) + own_bytes(nulls.lengths) == 16


def test_mapped_arrays_take_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(80))
    with file.open("rb") as opened:
        array = np.ndarray((10,), "<i8", MappedBytes.map(opened.fileno()), 0)

    assert own_bytes(array) == own_bytes(array[2:][::2]) == 0
    assert own_bytes(array.copy()) == 80
