from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.table.manifests.live_files import live_rows, rows_left
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from tests.examples import examples
from tests.tables import entry, manifest

FILES = st.builds(
    entry,
    partition=st.sampled_from([b"p", b"q", b""]),
    bucket=st.sampled_from([0, 1]),
    level=st.sampled_from([0, 5]),
    file_name=st.sampled_from(["a", "b", "ab"]),
    extra_files=st.sampled_from([(), ("a",), ("a", "b"), ("ab",), ("b", "a")]),
    embedded_index=st.sampled_from([None, b"", b"index"]),
    external_path=st.sampled_from([None, "", "s3://bucket/a"]),
)
# Few files, so that many entries are about the same one.
MANIFESTS = st.lists(FILES, min_size=1, max_size=5).flatmap(
    lambda files: st.lists(
        st.lists(st.builds(replace, st.sampled_from(files), kind=st.sampled_from(FileKind)), max_size=12),
        max_size=4,
    )
)


def live(*manifests: list[ManifestEntry]) -> list[list[int]]:
    return [rows.tolist() for rows in live_rows([manifest(entries) for entries in manifests])]


def names(*manifests: list[ManifestEntry]) -> list[str]:
    kept = zip(manifests, live(*manifests), strict=True)
    return [entries[row].file.file_name for entries, rows in kept for row in rows]


def test_what_is_not_part_of_the_identity_does_not_matter() -> None:
    assert names([entry(row_count=1)], [entry(FileKind.DELETE, row_count=2, schema_id=3)]) == []


def identity(each: ManifestEntry) -> tuple[Any, ...]:
    file = each.file
    parts = (file.level, file.file_name, file.extra_files, file.embedded_index, file.external_path)
    return each.partition, each.bucket, *parts


@examples(200)
@given(MANIFESTS)
def test_it_is_what_the_definition_says(manifests: list[list[ManifestEntry]]) -> None:
    deleted = {identity(each) for entries in manifests for each in entries if each.kind is FileKind.DELETE}
    assert live(*manifests) == [
        [
            row
            for row, each in enumerate(entries)
            if each.kind is FileKind.ADD and identity(each) not in deleted
        ]
        for entries in manifests
    ]


def left(*manifests: list[ManifestEntry]) -> list[list[int]]:
    return [rows.tolist() for rows in rows_left([manifest(entries) for entries in manifests])]


@examples(200)
@given(MANIFESTS)
def test_what_is_left_is_what_nothing_cancels(manifests: list[list[ManifestEntry]]) -> None:
    added, deleted = (
        {identity(each) for entries in manifests for each in entries if each.kind is kind}
        for kind in (FileKind.ADD, FileKind.DELETE)
    )
    assert left(*manifests) == [
        [row for row, each in enumerate(entries) if identity(each) not in added & deleted]
        for entries in manifests
    ]
