"""How a table's options say its manifests are written and merged."""

from __future__ import annotations

import pytest

from app.errors import CorruptMetadataError, RequestError, UnsupportedFormatError
from app.options.manifests import ManifestOptions


def test_what_is_not_set_is_as_in_the_engine() -> None:
    assert ManifestOptions.of("t", {}) == ManifestOptions("zstd", 8 << 20, 30, 16 << 20)


def test_what_is_set_counts() -> None:
    options = {
        "manifest.format": " Avro",
        "manifest.compression": "Snappy ",
        "manifest.target-file-size": "1 mb",
        "manifest.merge-min-count": "5",
        "manifest.full-compaction-threshold-size": "64kb",
    }
    assert ManifestOptions.of("t", options) == ManifestOptions("snappy", 1 << 20, 5, 64 << 10)


def test_other_formats_are_not_written() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"table t has manifest\.format=orc, .* use the engine"):
        ManifestOptions.of("t", {"manifest.format": "ORC"})


def test_what_is_no_size_or_number_is_told() -> None:
    with pytest.raises(RequestError, match=r"manifest\.target-file-size must be a size"):
        ManifestOptions.of("t", {"manifest.target-file-size": "large"})
    with pytest.raises(CorruptMetadataError, match=r"manifest\.merge-min-count must be a number"):
        ManifestOptions.of("t", {"manifest.merge-min-count": "many"})
