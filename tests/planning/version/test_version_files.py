"""The files of a version are the same, whatever version was looked at before."""

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.version.version_files import VersionFiles, open_version_files, store_version_files
from app.storage.disk.disk_tier import DiskTier
from app.storage.tiers import TierEntry, Tiers
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind
from app.types import parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import entry, manifest

ENTRIES = st.builds(
    entry,
    kind=st.sampled_from([FileKind.ADD, FileKind.ADD, FileKind.ADD, FileKind.DELETE]),
    partition=st.sampled_from([serialize_row([number], [parse_type("INT")]) for number in range(3)]),
    bucket=st.integers(0, 2),
    file_name=st.sampled_from(["a", "b", "c", "d"]),
    row_count=st.integers(0, 100),
)


def columns(files: VersionFiles) -> dict[str, Any]:
    """Everything that the columns hold, in a form that can be compared."""
    found: dict[str, Any] = {}
    for each in fields(files.columns):
        value = getattr(files.columns, each.name)
        found[each.name] = value.tolist() if isinstance(value, np.ndarray) else value
    found["rows"] = [None if rows is None else rows.tolist() for rows in files.columns.rows]
    # Partitions may be numbered otherwise, and arrays lie elsewhere.
    del found["growing"]
    codes, partitions = files.columns.partition_codes, found.pop("partitions")
    return found | {"partition_codes": [partitions[code] for code in codes.tolist()]}


@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=6), st.data())
def test_files_do_not_depend_on_the_version_before(entries: list[list[object]], data: st.DataObject) -> None:
    manifests = [manifest(each) for each in entries]  # type: ignore[arg-type] # built above
    keys = [("manifest", number) for number in range(len(manifests))]
    some = data.draw(st.lists(st.sampled_from(keys), unique=True) if keys else st.just([]))
    other_keys = data.draw(st.sampled_from([some, keys[: len(some)], keys[: len(some)] + some]))
    other = VersionFiles.of(other_keys, [manifests[number] for _, number in other_keys])

    found, expected = (
        VersionFiles.of(keys, manifests, other),
        VersionFiles.of(keys, manifests),
    )

    assert columns(found) == columns(expected)
    assert found.removing == expected.removing


def test_only_what_was_added_is_looked_at() -> None:
    first, second = manifest([entry(file_name="a"), entry(file_name="b")]), manifest([entry(file_name="c")])
    before = VersionFiles.of([("first", 1)], [first])
    before = replace(before, columns=before.columns.select(np.array([False, True])))

    after = VersionFiles.of([("first", 1), ("second", 1)], [first, second], before)

    assert after.columns.rows[0] is before.columns.rows[0]
    assert len(after.columns) == 2


@given(
    st.lists(st.lists(ENTRIES, max_size=3), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4), st.integers(0, 2)), max_size=15),
)
def test_versions_that_grow_from_one_another_keep_what_they_had(
    entries: list[list[object]], commits: list[tuple[int, int, int]]
) -> None:
    """Also where several follow the same one, as after a rollback, or drop what it had last."""
    manifests = [manifest(each) for each in entries]  # type: ignore[arg-type] # built above
    versions = [VersionFiles.of([], [])]
    for before, added, dropped in commits:
        other = versions[before % len(versions)]
        kept = other.keys[: max(0, len(other.keys) - dropped)]
        keys = [*kept, (f"manifest of {len(versions)}", added % len(manifests))]
        versions.append(VersionFiles.of(keys, [manifests[number] for _, number in keys], other))

    for version in versions:
        expected = VersionFiles.of(version.keys, [manifests[number] for _, number in version.keys])
        assert columns(version) == columns(expected)


def test_versions_that_follow_one_another_share_their_memory() -> None:
    manifests = [manifest([entry(file_name=f"{number}-{at}") for at in range(9)]) for number in range(5)]
    versions: list[VersionFiles | None] = [None]
    for count in range(1, 6):
        keys = [("manifest", number) for number in range(count)]
        versions.append(VersionFiles.of(keys, manifests[:count], versions[-1]))

    _, _, _, third, fourth, fifth = versions
    assert third is not None
    assert fourth is not None
    assert fifth is not None
    assert np.shares_memory(fourth.columns.row_counts, fifth.columns.row_counts)
    assert [len(each.columns) for each in (third, fourth, fifth)] == [27, 36, 45]


KEYS = [("manifest-\udc80", 1), ("manifest-2", 2), ("manifest-3", 3)]


def manifests() -> list[Manifest]:
    """Return the second of three removes a file of the first."""
    partitions = [serialize_row([number], [parse_type("INT")]) for number in range(2)]
    first = [entry(file_name=f"a{at}", partition=partitions[at % 2], row_count=at) for at in range(5)]
    removed = entry(kind=FileKind.DELETE, file_name="a1", partition=partitions[1], row_count=1)
    second = [removed, entry(file_name="b", partition=partitions[0], bucket=7)]
    return [manifest(first), manifest(second), manifest([entry(file_name="c", level=5)])]


def kept_in(directory: Path) -> TierEntry:
    entry = Tiers(DiskTier(directory, 1 << 30)).entry("file:///w/", "db.db/t", None, "live files")
    assert entry is not None
    return entry


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_files_come_back(tmp_path: Path, count: int) -> None:
    live = VersionFiles.of(KEYS[:count], manifests()[:count])

    kept = store_version_files(kept_in(tmp_path), live)
    found = open_version_files(kept_in(tmp_path))

    assert found is not None
    assert (list(found.keys), list(found.removing)) == (list(live.keys), list(live.removing))
    assert columns(found) == columns(live)
    assert found.on_disk == kept.on_disk == len(live.columns)
    assert found.is_of(KEYS[:count])


def test_what_is_mapped_takes_no_memory(tmp_path: Path) -> None:
    live = VersionFiles.of(KEYS, manifests())
    store_version_files(kept_in(tmp_path), live)

    found = open_version_files(kept_in(tmp_path))

    assert found is not None
    assert found.columns.nbytes < live.columns.nbytes // 2


def test_a_version_that_follows_is_told_from_what_was_kept(tmp_path: Path) -> None:
    store_version_files(kept_in(tmp_path), VersionFiles.of(KEYS[:2], manifests()[:2]))

    found = VersionFiles.of(KEYS, manifests(), open_version_files(kept_in(tmp_path)))

    assert columns(found) == columns(VersionFiles.of(KEYS, manifests()))
    assert found.on_disk == 5


def test_a_few_new_files_are_no_reason_to_write_everything_anew(tmp_path: Path) -> None:
    live = VersionFiles.of(KEYS, manifests())
    store_version_files(kept_in(tmp_path), replace(live, on_disk=0))
    kept_in(tmp_path).drop()

    assert store_version_files(kept_in(tmp_path), replace(live, on_disk=6)).on_disk == 6
    assert open_version_files(kept_in(tmp_path)) is None
    assert store_version_files(kept_in(tmp_path), replace(live, on_disk=5)).on_disk == 6
    assert open_version_files(kept_in(tmp_path)) is not None


def test_nothing_is_taken_from_a_damaged_file(tmp_path: Path) -> None:
    """Wherever the file is damaged; it is gone then."""
    live = VersionFiles.of(KEYS, manifests())
    store_version_files(kept_in(tmp_path), live)
    [file] = (path for path in tmp_path.rglob("*") if path.is_file())
    written = file.read_bytes()
    for start, stop in pairwise(range(0, len(written), 1 + len(written) // 50)):
        # Mapped files are never written to, but replaced.
        file.unlink(missing_ok=True)
        file.write_bytes(written[:start] + bytes(byte ^ 1 for byte in written[start:stop]) + written[stop:])

        assert open_version_files(kept_in(tmp_path)) is None
        assert not file.exists()
