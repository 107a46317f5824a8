"""Which deletion vector belongs to which file, beside looking for each by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.version.contents import UNKNOWN_CARDINALITY, VectorPlaces
from app.planning.version.files import FileColumns, Files
from app.planning.version.manifests import Manifests
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from app.types.index_files import DELETION_VECTORS, DeletionRange, IndexFileMeta
from tests.examples import examples
from tests.table.entries import entry, manifest

PARTITIONS, BUCKETS, NAMES = [b"p", b"q"], [0, 1], ["a", "b", "é"]


@st.composite
def index_files(draw: st.DrawFn) -> IndexEntry:
    """An index file of one bucket; a writer may have vectors for files that are gone."""
    ranges = draw(
        st.lists(
            st.builds(
                DeletionRange,
                st.sampled_from([*NAMES, "gone"]),
                st.integers(1, 99),
                st.just(20),
                st.none() | st.integers(0, 9),
            ),
            max_size=3,
        )
    )
    place = draw(st.sampled_from(PARTITIONS)), draw(st.sampled_from(BUCKETS))
    file = IndexFileMeta(DELETION_VECTORS, "index-1", 100, len(ranges), tuple(ranges))
    return IndexEntry(FileKind.ADD, *place, file)


def files_of(*manifests: Sequence[ManifestEntry]) -> Files:
    parsed = tuple(map(manifest, manifests))
    return Files(
        FileColumns.of(parsed, [np.arange(len(entries)) for entries in manifests]), Manifests.of(parsed)
    )


FILES = st.lists(
    st.lists(
        st.builds(
            entry,
            partition=st.sampled_from(PARTITIONS),
            bucket=st.sampled_from(BUCKETS),
            file_name=st.sampled_from(NAMES),
        ),
        max_size=6,
    ),
    max_size=2,
)


@given(manifests=FILES, entries=st.lists(index_files(), max_size=4))
@examples(50)
def test_a_vector_belongs_to_the_file_of_its_name_in_its_bucket(
    manifests: list[list[ManifestEntry]], entries: list[IndexEntry]
) -> None:
    places = VectorPlaces.find(entries, files_of(*manifests))

    found = [None if number < 0 else places.places[number] for number in places.numbers.tolist()]
    expected = []
    for file in (file for listed in manifests for file in listed):
        vectors = [
            (index, lies)
            for index in entries
            for lies in index.file.ranges
            if (index.partition, index.bucket, lies.data_file)
            == (file.partition, file.bucket, file.file.file_name)
        ]
        expected.append(vectors[-1] if vectors else None)
    assert found == expected
    counts = places.deleted_rows(places.numbers).tolist()
    assert counts == [
        0
        if vector is None
        else UNKNOWN_CARDINALITY
        if vector[1].cardinality is None
        else vector[1].cardinality
        for vector in expected
    ]


@pytest.mark.parametrize("cardinality", [None, 0, 7])
def test_the_same_name_in_another_bucket_or_partition_is_another_file(cardinality: int | None) -> None:
    files = files_of(
        [
            entry(partition=partition, bucket=bucket, file_name="a")
            for partition in PARTITIONS
            for bucket in BUCKETS
        ]
    )
    lies = DeletionRange("a", 1, 20, cardinality)
    index = IndexEntry(FileKind.ADD, b"q", 0, IndexFileMeta(DELETION_VECTORS, "index-1", 100, 1, (lies,)))

    assert VectorPlaces.find([index], files).numbers.tolist() == [-1, -1, 0, -1]


def test_without_vectors_no_file_has_one() -> None:
    places = VectorPlaces.find([], files_of([entry(), entry(bucket=1)]))

    assert places.numbers.tolist() == [-1, -1]
    assert places.deleted_rows(places.numbers).tolist() == [0, 0]
