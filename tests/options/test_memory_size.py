from __future__ import annotations

import pytest

from app.errors import RequestError
from app.options.memory_size import memory_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("500", 500),
        ("500 b", 500),
        ("16kb", 16 << 10),
        (" 2 MB ", 2 << 20),
        ("3 gibibytes", 3 << 30),
        ("1t", 1 << 40),
    ],
)
def test_sizes_are_bytes(text: str, expected: int) -> None:
    assert memory_size("size", text) == expected


@pytest.mark.parametrize("text", ["", "kb", "-1", "1.5 mb", "1 megabyte", "1 kb kb", "٣ kb", "9" * 19])
def test_other_texts_are_named_with_their_option(text: str) -> None:
    with pytest.raises(RequestError, match="target-size"):
        memory_size("target-size", text)
