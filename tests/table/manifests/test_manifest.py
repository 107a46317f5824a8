import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.manifests.manifest import COLUMNS, Derived, Manifest
from app.table.manifests.manifest_entry import FileKind, FileSource, ManifestEntry, RowStatistics
from app.table.records.expansion import claiming
from app.types import parse_type
from app.types.binary_row.row import serialize_row
from benchmarks.avro_schemas import MANIFEST
from tests.tables import avro, entry, manifest, record

LONGS = st.integers(0, 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
NAMES = st.lists(st.text(max_size=4), max_size=3).map(tuple)
STATISTICS = st.builds(
    RowStatistics,
    st.binary(max_size=9),
    st.binary(max_size=9),
    st.lists(st.none() | LONGS, max_size=3).map(tuple),
)
ENTRIES = st.builds(
    entry,
    st.sampled_from(FileKind),
    partition=st.sampled_from([b"", b"p", b"q"]),
    bucket=INTS,
    file_name=st.text(max_size=9),
    file_size=LONGS,
    row_count=LONGS,
    min_key=st.binary(max_size=9),
    max_key=st.binary(max_size=9),
    key_statistics=STATISTICS,
    value_statistics=STATISTICS,
    min_sequence_number=st.integers(-(2**63), 2**63 - 1),
    max_sequence_number=LONGS,
    schema_id=LONGS,
    level=INTS,
    extra_files=NAMES,
    creation_time_millis=st.none() | LONGS,
    delete_row_count=st.none() | LONGS,
    embedded_index=st.none() | st.binary(max_size=20),
    file_source=st.none() | st.sampled_from(FileSource),
    value_statistics_columns=st.none() | NAMES,
    external_path=st.none() | st.text(max_size=9),
    first_row_id=st.none() | LONGS,
    write_columns=st.none() | NAMES,
)
LATER_FIELDS = ("_CREATION_TIME", "_EMBEDDED_FILE_INDEX", "_VALUE_STATS_COLS", "_EXTERNAL_PATH")


@given(st.lists(ENTRIES, max_size=12))
def test_entries_come_back_as_they_were_written(entries: list[ManifestEntry]) -> None:
    found = manifest(entries)
    assert [found.entry(row) for row in range(len(found.kinds))] == entries


def test_columns_have_the_types_they_promise() -> None:
    found = manifest([entry(), entry(FileKind.DELETE)])
    types = {
        "kinds": np.int8,
        "partition_codes": np.int32,
        "buckets": np.int32,
        "total_buckets": np.int32,
        "file_sizes": np.int64,
        "row_counts": np.int64,
        "min_sequence_numbers": np.int64,
        "max_sequence_numbers": np.int64,
        "schema_ids": np.int64,
        "levels": np.int32,
        "file_sources": np.int8,
    }
    for name, kind in types.items():
        column = getattr(found, name)
        assert (column.dtype, column.shape) == (np.dtype(kind), (2,)), name


def test_equal_partitions_are_one_object() -> None:
    found = manifest([entry(partition=b"p"), entry(partition=b"q"), entry(partition=b"p")])
    assert found.partitions == (b"p", b"q")
    assert found.entry(0).partition is found.entry(2).partition


def test_older_writers_leave_out_later_fields() -> None:
    schema = deepcopy(MANIFEST)
    file = schema["fields"][-1]["type"]
    file["fields"] = [each for each in file["fields"] if each["name"] not in LATER_FIELDS]
    written = entry(creation_time_millis=1, embedded_index=b"i", value_statistics_columns=("a",))
    found = Manifest.read(avro([record(written)], schema))
    assert [found.entry(0)] == [entry()]


def test_an_unknown_source_is_no_source() -> None:
    written = record(entry(file_source=FileSource.COMPACT))
    written["_FILE"]["_FILE_SOURCE"] = 7
    assert Manifest.read(avro([written])).entry(0).file.file_source is None


def test_null_counts_below_zero_are_unknown() -> None:
    statistics = RowStatistics(b"", b"", (-7, 3))
    assert manifest([entry(key_statistics=statistics)]).key_statistics.null_counts.tolist() == [-1, 3]


def changed(name: str, value: object) -> dict[str, Any]:
    written = record(entry(file_name="bad"))
    (written if name in written else written["_FILE"])[name] = value
    return written


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (changed("_KIND", 2), "of kind 0 or 1, found 2"),
        (changed("_KIND", 256), "of kind 0 or 1, found 256"),
        (changed("_KIND", -1), "of kind 0 or 1, found -1"),
        (changed("_FILE_SIZE", -1), "'bad' claims -1 bytes and 10 rows"),
        (changed("_ROW_COUNT", -5), "'bad' claims 100 bytes and -5 rows"),
    ],
)
def test_impossible_entries_are_damage(written: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CorruptMetadataError, match=complaint):
        Manifest.read(avro([record(entry()), written]))


def test_other_versions_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 3"):
        Manifest.read(avro([record(entry()), changed("_VERSION", 3)]))


def test_keys_of_append_tables_have_no_columns() -> None:
    one = serialize_row([7], [parse_type("INT")])
    assert manifest([entry(), entry(min_key=one)]).has_keys
    assert not manifest([entry(), entry(min_key=b"")]).has_keys
    assert not manifest([]).has_keys


SIDE_FILES = st.sampled_from(["a.index", "b", ".inde", "é.index", ".index", "b.indexx", "index", ""])


@given(st.lists(st.lists(SIDE_FILES, max_size=3), max_size=9))
def test_side_indexes_are_the_files_whose_names_end_so(files: list[list[str]]) -> None:
    found = manifest([entry(file_name="bad", extra_files=tuple(names)) for names in files])
    expected = [[name.encode() for name in names if name.endswith(".index")] for names in files]
    if any(len(names) > 1 for names in expected):
        with pytest.raises(CorruptMetadataError, match="bad has more than one index file"):
            found.side_indexes()
    else:
        assert list(found.side_indexes()) == [next(iter(names), None) for names in expected]


def test_the_memory_of_indexes_and_columns_counts() -> None:
    plain, indexed = (
        manifest([entry(file_name=f"file-{number}", embedded_index=index) for number in range(1000)])
        for index in (None, bytes(501))
    )
    # Where none is null there is no bitmap of nulls.
    assert indexed.nbytes - plain.nbytes >= 500_000
    arrays = [getattr(plain, name) for name in COLUMNS]
    assert plain.nbytes >= sum(each.nbytes for each in arrays if isinstance(each, np.ndarray))
    assert plain.nbytes < 1000 * sys.getsizeof(bytes(1000))


def test_many_large_indexes_are_those_of_their_files() -> None:
    large = [
        entry(file_name=f"file-{number}", embedded_index=None if number == 7 else bytes([number]) * 500_000)
        for number in range(20)
    ]

    found = manifest(large)

    assert list(found.entries(np.arange(20))) == large


def test_copies_of_columns_are_claimed() -> None:
    data = avro(record(entry(min_key=bytes([number]) * 500_000)) for number in range(20))
    claims: list[int] = []

    with claiming(claims.append):
        Manifest.read(data)

    assert claims[-1] >= 2 * 20 * 500_000


def test_a_thing_is_made_once() -> None:
    derived, made = Derived(), []

    def make() -> str:
        made.append("once")
        return "thing"

    assert [derived.get_or_make("key", make, len) for _ in range(3)] == ["thing"] * 3
    assert made == ["once"]
    assert derived.get_or_make("other", lambda: "another", len) == "another"


def test_weights_add_up() -> None:
    derived = Derived()
    assert derived.nbytes == 0
    for size in (3, 0, 4, 4):
        derived.get_or_make(size, partial(bytes, size), len)

    assert derived.nbytes == 3 + 0 + 4


def test_growth_is_told_once() -> None:
    derived = Derived()
    assert not derived.has_grown()

    for key in ("a", "b"):
        derived.get_or_make(key, lambda: b"thing", len)
    assert [derived.has_grown() for _ in range(2)] == [True, False]

    derived.get_or_make("a", lambda: b"thing", len)
    assert not derived.has_grown()
    derived.get_or_make("c", lambda: b"thing", len)
    assert [derived.has_grown() for _ in range(2)] == [True, False]


def test_what_grows_is_weighed_again() -> None:
    derived = Derived()
    growing = derived.get_or_make("key", bytearray, len, grows=True)
    derived.has_grown()
    assert derived.nbytes == 0

    growing += b"thing"

    assert [derived.has_grown() for _ in range(2)] == [True, False]
    assert derived.nbytes == len(growing)


def test_a_manifest_without_what_was_derived_has_the_same_columns() -> None:
    whole = manifest([entry(file_name="a"), entry(file_name="b")])
    assert whole.without_derived() is None
    names = whole.file_names
    whole.derived.get_or_make("key", lambda: b"thing", len)

    plain = whole.without_derived()

    assert plain is not None
    assert plain.file_names is names
    assert len(plain) == len(whole)
    assert plain.nbytes == whole.nbytes - len(b"thing")
    assert plain.without_derived() is None


def test_a_failure_leaves_nothing() -> None:
    derived = Derived()

    with pytest.raises(ZeroDivisionError):
        derived.get_or_make("key", lambda: 1 // 0, lambda _: 1)

    assert not derived.has_grown()
    assert derived.get_or_make("key", lambda: 2, lambda _: 1) == 2


def test_of_two_that_are_made_at_the_same_time_one_stays() -> None:
    derived, both = Derived(), threading.Barrier(2)

    def make() -> object:
        both.wait(30)
        return object()

    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(derived.get_or_make, "key", make, lambda _: 5) for _ in range(2))

    assert first.result() is second.result()
    assert derived.nbytes == 5
