from __future__ import annotations

import pytest

from app.options.map_keys import split_map_key


@pytest.mark.parametrize(
    ("name", "split"),
    [("m[k]", ("m", "k")), ("m[a[b]]", ("m", "a[b]")), ("m[]", ("m", "")), ("m[k", ("m[k", None))],
)
def test_map_keys_start_at_the_first_bracket(name: str, split: tuple[str, str | None]) -> None:
    assert split_map_key(name) == split
