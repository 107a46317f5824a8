"""Options of new data files."""

from __future__ import annotations

import pytest

from app.errors import RequestError, UnsupportedFormatError
from app.options.data_files import ALL, DataFileOptions, StatisticsMode, statistics_mode


def test_defaults_are_the_engines() -> None:
    keyed, append = (DataFileOptions.parse({}, has_key=has_key) for has_key in (True, False))
    assert (keyed.compression, keyed.compression_level, keyed.prefix) == ("zstd", 1, "data-")
    assert (keyed.target_bytes, append.target_bytes) == (128 << 20, 256 << 20)
    assert keyed.mode("any", 1000) == StatisticsMode(nulls=True, characters=16)
    assert (keyed.dense, keyed.sequence_fields, keyed.descending) == (True, (), False)


def test_modes_of_statistics() -> None:
    assert statistics_mode("o", " FULL ") == StatisticsMode(nulls=True, characters=ALL)
    assert statistics_mode("o", "counts") == StatisticsMode(nulls=True)
    assert statistics_mode("o", "none") == StatisticsMode()
    assert statistics_mode("o", "truncate(3)") == StatisticsMode(nulls=True, characters=3)


def test_columns_have_modes_of_their_own() -> None:
    options = DataFileOptions.parse(
        {
            "fields.a.b.stats-mode": "none",
            "metadata.stats-keep-first-n-columns": "2",
            "sequence.field": "x, y",
        },
        has_key=True,
    )
    assert options.mode("a.b", 0) == StatisticsMode()
    assert options.mode("c", 1).nulls
    assert not options.mode("d", 2).nulls
    assert options.sequence_fields == ("x", "y")


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("file.compression", "lzo", UnsupportedFormatError),
        ("metadata.stats-mode", "truncate", UnsupportedFormatError),
        ("target-file-size", "much", RequestError),
        ("file.compression.zstd-level", "fast", RequestError),
    ],
)
def test_what_is_wrong_is_told(option: str, value: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=option):
        DataFileOptions.parse({option: value}, has_key=True)
