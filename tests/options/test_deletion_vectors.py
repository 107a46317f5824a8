from __future__ import annotations

import pytest

from app.deletion_vectors import VectorOptions
from app.errors import RequestError


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, VectorOptions(bitmap64=False, target_bytes=2 * 2**20)),
        ({"deletion-vectors.bitmap64": "true"}, VectorOptions(bitmap64=True)),
        ({"deletion-vectors.bitmap64": " False "}, VectorOptions()),
        ({"deletion-vector.index-file.target-size": "400 b"}, VectorOptions(target_bytes=400)),
        (
            {"deletion-vector.index-file.target-size": "1MB", "bucket": "-1"},
            VectorOptions(target_bytes=2**20),
        ),
    ],
)
def test_options_of_a_table(options: dict[str, str], expected: VectorOptions) -> None:
    assert VectorOptions.parse(options) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("deletion-vectors.bitmap64", "yes"), ("deletion-vector.index-file.target-size", "2 megabytes")],
)
def test_wrong_values_are_named(name: str, value: str) -> None:
    with pytest.raises(RequestError, match=f"{name}.*{value}"):
        VectorOptions.parse({name: value})
