"""Damaged files of a table: a damaged index never hides rows, damaged metadata never goes unnoticed."""

import random
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from app.errors import CorruptMetadataError, FileMissingError, PaimonIndexError, UnsupportedFormatError
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import FilePlan, KeepReason, SkipStep
from tests.copied_tables import CopiedTable, CopyTable
from tests.examples import share
from tests.golden_cases import expected
from tests.tables import all_files

_SNAPSHOT, _SCHEMA = "snapshot", "schema"
_LIST, _INDEX_MANIFEST, _MANIFEST = "manifest-list-", "index-manifest-", "manifest-"


def indexed_queries(table: str) -> list[str]:
    """Return filters of the newest version that some index answers."""
    return [
        query["filter_sql"]
        for query in expected(table)["queries"]
        if query["name"].startswith("eq_")
        and query["filter_sql"]
        and query["snapshot_id"] is query["tag"] is query["branch"] is None
    ]


def asked_of_indexes(plan: Plan) -> dict[str, FilePlan]:
    return {
        file.file_name: file
        for file in all_files(plan)
        if file.reason is SkipStep.FILE_INDEX
        or (file.reason is KeepReason.MATCHED and file.selection is not None)
    }


def selections(plan: Plan) -> dict[str, set[int] | None]:
    return {file.file_name: None if file.selection is None else set(file.selection) for file in plan.files}


def assert_keeps_all_of(smaller: Plan, larger: Plan) -> None:
    for name, rows in selections(smaller).items():
        assert name in selections(larger)
        kept = selections(larger)[name]
        assert kept is None or (rows is not None and rows <= kept)


def damages(content: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    for at in chance.sample(range(len(content)), min(count, len(content))):
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        yield bytes(flipped)


def metadata_files(copied: CopiedTable) -> dict[str, list[Path]]:
    document = expected(copied.ref.table)
    snapshot = document["versions"][0]["snapshot"]
    directory = copied.directory / "manifest"
    lists = [directory / snapshot[key] for key in ("baseManifestList", "deltaManifestList")]
    manifests = [
        directory / record["_FILE_NAME"] for path in lists for record in avro_records(path.read_bytes())
    ]
    index_manifest = snapshot.get("indexManifest")
    return {
        _SNAPSHOT: [copied.directory / "snapshot" / f"snapshot-{snapshot['id']}"],
        _SCHEMA: [copied.directory / "schema" / f"schema-{document['schema']['id']}"],
        _LIST: lists,
        _MANIFEST: manifests,
        _INDEX_MANIFEST: [directory / index_manifest] if index_manifest else [],
    }


def avro_records(content: bytes) -> list[Any]:
    return list(fastavro.reader(BytesIO(content)))


def test_a_side_index_that_is_cut_anywhere_hides_nothing(copy_table: CopyTable) -> None:
    copied = copy_table("append_sidecar")
    for written in share(indexed_queries("append_sidecar")[::2], 3):
        intact = copied.plan(written)
        for name in list(asked_of_indexes(intact))[:1]:
            (path,) = copied.directory.glob(f"**/{name}.index")
            content = path.read_bytes()
            for size in range(0, len(content), max(1, len(content) // 6)):
                path.write_bytes(content[:size])

                assert_keeps_all_of(intact, copied.plan(written))
            path.write_bytes(content)


@pytest.mark.parametrize("table", ["append_sidecar", "evolve_sidecar"])
def test_flipped_bits_of_a_side_index_never_fail_a_plan(copy_table: CopyTable, table: str) -> None:
    copied = copy_table(table)
    chance = random.Random(table)  # noqa: S311 - the same damage every time
    for written in share(indexed_queries(table)[::2], 3):
        intact = copied.plan(written)
        for name, file in list(asked_of_indexes(intact).items())[:1]:
            (path,) = copied.directory.glob(f"**/{name}.index")
            content = path.read_bytes()
            for flipped in share([*damages(content, chance, 5)], 2):
                path.write_bytes(flipped)
                damaged = copied.plan(written)
                # Other files are none of this index's business.
                others = {
                    other: rows for other, rows in selections(intact).items() if other != file.file_name
                }
                assert others.items() <= selections(damaged).items()
            path.write_bytes(content)


_METADATA = [
    (table, kind)
    for table in ("append_dv32", "codec_null", "codec_snappy", "pk_merge")
    for kind in (_SNAPSHOT, _SCHEMA, _LIST, _MANIFEST, _INDEX_MANIFEST)
    if kind != _INDEX_MANIFEST or expected(table)["deletion_vectors"]
]


@pytest.mark.parametrize(("table", "kind"), _METADATA)
def test_cut_metadata_is_an_error(copy_table: CopyTable, table: str, kind: str) -> None:
    copied = copy_table(table)
    for path in metadata_files(copied)[kind]:
        content = path.read_bytes()
        cuts = {*range(0, len(content), max(1, len(content) // 6)), len(content) - 1}
        for size in share(sorted(cuts, reverse=True), 3):
            path.write_bytes(content[:size])

            with pytest.raises((CorruptMetadataError, UnsupportedFormatError), match=path.name):
                copied.plan()
        path.write_bytes(content)


@pytest.mark.parametrize("table", ["append_dv32", "codec_null", "pk_merge"])
@pytest.mark.parametrize("kind", [_LIST, _MANIFEST])
def test_metadata_cut_between_its_blocks_is_an_error(copy_table: CopyTable, table: str, kind: str) -> None:
    """What is left is a whole Avro file, of no records."""
    copied = copy_table(table)
    for path in metadata_files(copied)[kind]:
        content = path.read_bytes()
        head = content.index(content[-16:]) + 16
        if head == len(content):
            continue
        path.write_bytes(content[:head])

        with pytest.raises(CorruptMetadataError, match=path.name):
            copied.plan()
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("table", "kind"), [each for each in _METADATA if each[1] not in (_SNAPSHOT, _SCHEMA)]
)
def test_missing_metadata_of_a_snapshot_that_is_there_is_missing(
    copy_table: CopyTable, table: str, kind: str
) -> None:
    copied = copy_table(table)
    for path in metadata_files(copied)[kind]:
        content = path.read_bytes()
        path.unlink()

        with pytest.raises(FileMissingError, match=path.name):
            copied.plan()
        path.write_bytes(content)


@pytest.mark.parametrize(("table", "kind"), _METADATA)
def test_flipped_bits_of_metadata_raise_what_callers_expect(
    copy_table: CopyTable, table: str, kind: str
) -> None:
    """Not every flip can be told from a table that was written so; none may fail in another way."""
    copied = copy_table(table)
    chance = random.Random(f"{table} {kind}")  # noqa: S311 - the same damage every time
    written = indexed_queries(table)[0]
    for path in metadata_files(copied)[kind][:2]:
        content = path.read_bytes()
        for flipped in share([*damages(content, chance, 10)], 5):
            path.write_bytes(flipped)
            with suppress(PaimonIndexError):
                copied.plan(written)
        path.write_bytes(content)


@pytest.mark.parametrize("kind", [_LIST, _MANIFEST, _INDEX_MANIFEST])
def test_checksums_leave_no_flip_in_a_block_unnoticed(copy_table: CopyTable, kind: str) -> None:
    copied = copy_table("codec_snappy")
    chance = random.Random(kind)  # noqa: S311 - the same damage every time
    intact = selections(copied.plan())
    for path in metadata_files(copied)[kind]:
        content = path.read_bytes()
        head = content.index(content[-16:]) + 16
        for flipped in share([*damages(content[head:], chance, 20)], 3):
            path.write_bytes(content[:head] + flipped)
            with suppress(CorruptMetadataError):
                assert selections(copied.plan()) == intact
        path.write_bytes(content)
