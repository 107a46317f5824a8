"""The files of a version as columns, beside a plain list of them."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.planning.version.files import FileColumns, Files
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import parse_type
from app.types.binary_row.row import serialize_row
from tests.examples import examples
from tests.tables import entry, manifest

PARTITIONS = [serialize_row([number], [parse_type("INT")]) for number in range(3)]

ENTRIES = st.builds(
    entry,
    partition=st.sampled_from(PARTITIONS),
    bucket=st.sampled_from([0, 1, -2, (1 << 31) - 1]),
    file_name=st.sampled_from(["a", "b", "é", "ab.parquet"]),
    external_path=st.sampled_from([None, "", "s3://bucket/a"]),
    level=st.sampled_from([0, 5]),
    schema_id=st.sampled_from([0, 1, 1 << 40]),
    row_count=st.integers(0, 1 << 40),
    file_size=st.integers(0, 1 << 40),
    delete_row_count=st.sampled_from([None, 0, 3]),
    min_sequence_number=st.integers(-5, 5),
    max_sequence_number=st.integers(-5, 5),
    first_row_id=st.sampled_from([None, 0, 7]),
)


class Placed(NamedTuple):
    """A file in the plain list: its manifest, its row there, and what stands in that row."""

    manifest: int
    row: int
    entry: ManifestEntry


@st.composite
def versions(draw: st.DrawFn) -> tuple[list[Placed], Files]:
    listed = draw(st.lists(st.lists(ENTRIES, max_size=6), max_size=4))
    left = [
        [row for row in range(len(entries)) if draw(st.integers(0, 3))]  # a quarter is left out
        for entries in listed
    ]
    plain = [Placed(number, row, listed[number][row]) for number, rows in enumerate(left) for row in rows]
    manifests = tuple(map(manifest, listed))
    rows = [np.array(each, np.int64) for each in left]
    return plain, Files(FileColumns.of(manifests, rows), manifests)


@st.composite
def chosen(draw: st.DrawFn) -> tuple[list[Placed], Files, list[int]]:
    plain, files = draw(versions())
    return plain, files, [at for at in range(len(plain)) if draw(st.booleans())]


@given(version=versions())
@examples(30)
def test_columns_tell_every_file_in_order(version: tuple[list[Placed], Files]) -> None:
    plain, files = version
    columns, entries = files.columns, [each.entry for each in plain]

    assert len(files) == len(columns) == len(plain)
    assert files.all().tolist() == list(range(len(plain)))
    assert [columns.partitions[code] for code in columns.partition_codes] == [
        each.partition for each in entries
    ]
    assert len(set(columns.partitions)) == len(columns.partitions)
    assert columns.buckets.tolist() == [each.bucket for each in entries]
    assert columns.total_buckets.tolist() == [each.total_buckets for each in entries]
    assert columns.levels.tolist() == [each.file.level for each in entries]
    assert columns.schema_ids.tolist() == [each.file.schema_id for each in entries]
    assert columns.row_counts.tolist() == [each.file.row_count for each in entries]
    assert columns.file_sizes.tolist() == [each.file.file_size for each in entries]
    assert columns.delete_row_counts.tolist() == [each.file.delete_row_count or 0 for each in entries]


@given(version=versions())
@examples(30)
def test_files_have_the_same_bucket_key_exactly_in_the_same_bucket(
    version: tuple[list[Placed], Files],
) -> None:
    plain, files = version
    buckets = [(each.entry.partition, each.entry.bucket) for each in plain]
    keys = files.columns.bucket_keys.tolist()

    assert len(set(zip(buckets, keys, strict=True))) == len(set(buckets)) == len(set(keys))


@given(version=versions())
@examples(30)
def test_each_file_is_found_in_its_manifest(version: tuple[list[Placed], Files]) -> None:
    plain, files = version
    for file, placed in enumerate(plain):
        assert files.place(file) == (placed.manifest, placed.row)
        assert files.entry(file) == placed.entry
        assert files.name(file) == placed.entry.file.file_name
        assert files.path(file) == (placed.entry.partition, placed.entry.bucket)


@given(some=chosen())
@examples(30)
def test_some_files_are_cut_up_by_manifest(some: tuple[list[Placed], Files, list[int]]) -> None:
    plain, files, at = some
    asked = np.array(at, np.int64)
    found = []
    for number, part, rows in files.by_manifest(asked):
        assert len(rows) == part.stop - part.start > 0
        found += [(file, number, row) for file, row in zip(at[part], rows.tolist(), strict=True)]

    assert found == [(file, plain[file].manifest, plain[file].row) for file in at]
    assert files.manifests_of(asked) == sorted({plain[file].manifest for file in at})


@given(some=chosen(), most=st.integers(1, 8))
@examples(30)
def test_some_files_are_cut_up_between_manifests_where_these_are_small_enough(
    some: tuple[list[Placed], Files, list[int]], most: int
) -> None:
    plain, files, at = some
    pieces = [piece.tolist() for piece in files.cut(np.array(at, np.int64), most)]

    assert [file for piece in pieces for file in piece] == at
    assert all(1 <= len(piece) <= most for piece in pieces)
    for piece, following in pairwise(pieces):
        last, first = plain[piece[-1]].manifest, plain[following[0]].manifest
        # Within a manifest only if so many of its files follow each other that nothing else is left.
        assert last != first or (len(piece) == most and plain[piece[0]].manifest == last)


@given(some=chosen())
@examples(30)
def test_what_manifests_tell_of_some_files(some: tuple[list[Placed], Files, list[int]]) -> None:
    plain, files, at = some
    asked = np.array(at, np.int64)
    expected = [plain[file].entry.file for file in at]
    names = {name: (f"{name}s", pa.large_binary()) for name in ("file_name", "external_path")}
    numbers = ("min_sequence_number", "max_sequence_number", "row_count", "first_row_id")
    arrays = files.gather(asked, names | {name: (f"{name}s", pa.int64()) for name in numbers})

    assert files.names(asked).to_pylist() == [each.file_name.encode() for each in expected]
    for name in names:
        texts = [getattr(each, name) for each in expected]
        assert arrays[name].to_pylist() == [None if text is None else text.encode() for text in texts]
    for name in numbers:
        assert arrays[name].to_pylist() == [getattr(each, name) for each in expected]


@given(version=versions(), names=st.lists(st.sampled_from(["a", "é", "ab", "A", "", "\ud800"]), max_size=4))
@examples(30)
def test_names_find_all_their_files(version: tuple[list[Placed], Files], names: list[str]) -> None:
    plain, files = version

    assert files.named(names).tolist() == [
        file for file, placed in enumerate(plain) if placed.entry.file.file_name in names
    ]


def test_columns_weigh_at_least_what_their_arrays_do() -> None:
    manifests = [manifest([entry(partition=PARTITIONS[at % 2]) for at in range(3)])]
    one, two, whole = (FileColumns.of(manifests, [np.arange(count)]) for count in (1, 2, 3))

    assert one.nbytes > sum(map(len, PARTITIONS[:2]))
    assert two.nbytes - one.nbytes == 8 * 5 + 4 * 4
    assert whole.nbytes == two.nbytes - 8 * 2 + 8 * 4 + 4 * 4


def test_columns_that_follow_others_in_one_place_weigh_what_they_add() -> None:
    manifests = [
        manifest([entry(file_name=f"{at}") for at in range(start, start + 100)]) for start in (0, 100)
    ]
    first, second = (FileColumns.of([each], [np.arange(100)]) for each in manifests)
    copied = first.followed_by(second)
    grown = copied.followed_by(FileColumns.of([manifest([entry()] * 10)], [np.arange(10)]))

    assert copied.additional_bytes(first) == copied.nbytes
    assert grown.additional_bytes(None) == grown.nbytes
    assert grown.nbytes // 50 < grown.additional_bytes(copied) < grown.nbytes // 10
    assert grown.first(2).additional_bytes(grown) == 0
