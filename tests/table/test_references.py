import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import (
    CorruptMetadataError,
    FileMissingError,
    NotFoundError,
    PaimonIndexError,
    SnapshotExpiredError,
)
from app.storage import Readers
from app.table import TableSnapshot
from app.table.references import MOST_READS, References
from tests.examples import examples
from tests.memory_storage import MemoryStorage

SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "id": 7,
    "schemaId": 1,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "commitUser": "user",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "APPEND",
    "timeMillis": 700,
    "totalRecordCount": 5,
    "unknown": {"x": []},
}


def snapshot_file(number: int, **changes: Any) -> bytes:
    members = {**SNAPSHOT, "id": number, "timeMillis": 100 * number, **changes}
    return json.dumps({key: value for key, value in members.items() if value is not ...}).encode()


def storage_of(*numbers: int, latest: bytes | None = None) -> MemoryStorage:
    files = {f"t/snapshot/snapshot-{number}": snapshot_file(number) for number in numbers}
    files["t/schema/schema-0"] = b"{}"
    if latest is not None:
        files["t/snapshot/LATEST"] = latest
    return MemoryStorage(files)


def references(storage: MemoryStorage) -> References:
    return References(storage, "t", "table db.t")


def as_the_engine_bisects(times: list[int], millis: int) -> int | None:
    """``SnapshotManager.earlierOrEqualTimeMills`` of release 1.4.2, of snapshots from 1 on."""
    earliest, latest, found = 1, len(times), None
    if times[0] > millis:
        return None
    while earliest <= latest:
        middle = earliest + (latest - earliest) // 2
        if times[middle - 1] > millis:
            latest = middle - 1
            continue
        found = middle
        if times[middle - 1] == millis:
            break
        earliest = middle + 1
    return found


class TestSnapshot:
    def test_members(self) -> None:
        snapshot = TableSnapshot.read(snapshot_file(7, indexManifest="index-manifest-a-0", nextRowId=3))
        assert (snapshot.id, snapshot.schema_id, snapshot.time_millis) == (7, 1, 700)
        assert (snapshot.base_manifest_list, snapshot.delta_manifest_list) == (
            "manifest-list-a-0",
            "manifest-list-a-1",
        )
        assert (snapshot.index_manifest, snapshot.next_row_id) == ("index-manifest-a-0", 3)
        assert (snapshot.commit_user, snapshot.commit_kind) == ("user", "APPEND")
        assert snapshot.commit_identifier == 9223372036854775807

    def test_absent_members_are_null(self) -> None:
        snapshot = TableSnapshot.read(snapshot_file(7, totalRecordCount=..., indexManifest=None))
        assert (snapshot.index_manifest, snapshot.total_record_count, snapshot.next_row_id) == (
            None,
            None,
            None,
        )

    def test_contents_tell_snapshots_apart(self) -> None:
        digests = {
            TableSnapshot.read(snapshot_file(7, deltaManifestList=name)).digest for name in ("a", "b", "a")
        }
        assert len(digests) == 2

    @pytest.mark.parametrize(
        "member", ["id", "schemaId", "baseManifestList", "deltaManifestList", "timeMillis"]
    )
    def test_what_must_be_there(self, member: str) -> None:
        absent_or_wrong: list[Any] = [..., [], None, 1.5]
        for wrong in absent_or_wrong:
            with pytest.raises(CorruptMetadataError, match=member):
                TableSnapshot.read(snapshot_file(7, **{member: wrong}))

    @examples(300)
    @given(st.data())
    def test_damage_raises_nothing_but_our_errors(self, data: st.DataObject) -> None:
        damaged = bytearray(snapshot_file(7))
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(PaimonIndexError):
            TableSnapshot.read(bytes(damaged))


class TestLatest:
    @pytest.mark.parametrize(
        ("numbers", "hint", "latest"),
        [
            ((1, 2, 3), b"3", 3),
            ((1, 2, 3), b" 3\n", 3),
            ((1, 2, 3, 4), b"3", 4),
            ((3, 6), b"3", 3),
            ((3, 4, 6), b"3", 6),
            ((9, 10), None, 10),
            ((9, 10), b"", 10),
            ((9, 10), b"ten", 10),
            ((9, 10), b"-1", 10),
            ((9, 10), b"9" * 40, 10),
            ((1, 2), b"5", 2),
            ((3, 6), b"3".ljust(64), 3),
            ((3, 6), b"3".ljust(65), 6),
        ],
    )
    def test_hints(self, numbers: tuple[int, ...], hint: bytes | None, latest: int) -> None:
        found = references(storage_of(*numbers, latest=hint)).latest()
        assert found is not None
        assert found.id == latest

    def test_a_good_hint_spares_the_listing(self) -> None:
        storage = storage_of(1, 2, 3, latest=b"3")
        references(storage).latest()
        assert storage.reads == ["t/snapshot/LATEST", "t/snapshot/snapshot-4", "t/snapshot/snapshot-3"]

    def test_a_table_that_was_never_written_to(self) -> None:
        assert references(storage_of()).latest() is None

    def test_a_table_that_lost_its_snapshots_is_not_empty(self) -> None:
        with pytest.raises(CorruptMetadataError, match="LATEST names snapshot 3"):
            references(storage_of(latest=b"3")).latest()

    @pytest.mark.parametrize("left", ["manifest/manifest-list-a-0", "tag/tag-v1"])
    def test_a_table_that_lost_its_directory_of_snapshots_says_so(self, left: str) -> None:
        storage = storage_of()
        storage.files[f"t/{left}"] = snapshot_file(1)
        with pytest.raises(FileMissingError, match=r"no snapshots in t/snapshot.*(manifest-list-a-0|'v1')"):
            references(storage).latest()

    @pytest.mark.parametrize("outcome", ["made", "given up"])
    def test_a_first_commit_that_is_under_way_is_no_loss(self, outcome: str) -> None:
        class Writing(MemoryStorage):
            looks = 0

            def list_names(self, directory: str) -> list[str]:
                found = super().list_names(directory)
                self.looks += directory == "t/manifest"
                if self.looks == 2:
                    if outcome == "made":
                        self.files["t/snapshot/snapshot-1"] = snapshot_file(1)
                    else:
                        self.files.clear()
                return found

        storage = Writing()
        storage.files["t/manifest/manifest-list-a-0"] = b""

        assert references(storage).latest() is None

    @pytest.mark.parametrize("left", ["manifest/manifest-a-0", "bucket-0/data-a-0.parquet"])
    def test_what_a_writer_leaves_before_its_first_commit_is_no_sign_of_one(self, left: str) -> None:
        storage = storage_of()
        storage.files[f"t/{left}"] = b""
        assert references(storage).latest() is None

    def test_strange_files_beside_snapshots_do_not_matter(self) -> None:
        storage = storage_of(1)
        storage.files["t/snapshot/snapshot-x"] = b""
        storage.files["t/snapshot/.snapshot-9.uuid.tmp"] = b""
        assert references(storage).snapshot_ids() == [1]

    @pytest.mark.parametrize(
        ("path", "content", "error", "told"),
        [
            ("snapshot-2", snapshot_file(5), CorruptMetadataError, "expected snapshot 2, found 5"),
            # One that goes away between listing and reading.
            ("snapshot-2/x", b"", SnapshotExpiredError, "snapshot 2"),
        ],
    )
    def test_a_newest_snapshot_that_cannot_be_read(
        self, path: str, content: bytes, error: type[Exception], told: str
    ) -> None:
        storage = storage_of(1)
        storage.files[f"t/snapshot/{path}"] = content
        with pytest.raises(error, match=told):
            references(storage).latest()


class TestTimeTravel:
    def test_by_number(self) -> None:
        assert references(storage_of(5, 6)).snapshot(6).id == 6

    @pytest.mark.parametrize("number", [4, 7, -1, 10**30])
    def test_a_missing_number_names_what_there_is(self, number: int) -> None:
        with pytest.raises(NotFoundError, match="there are snapshots 5 to 6"):
            references(storage_of(5, 6)).snapshot(number)

    def test_an_empty_table_has_no_snapshots(self) -> None:
        with pytest.raises(NotFoundError, match="there are no snapshots"):
            references(storage_of()).snapshot(1)
        with pytest.raises(NotFoundError, match=r"there is no table db\.t"):
            references(MemoryStorage()).snapshot(1)

    @pytest.mark.parametrize(("millis", "number"), [(500, 5), (599, 5), (600, 6), (10**15, 9)])
    def test_by_time(self, millis: int, number: int) -> None:
        for count in (1, 2, 3, 16):
            found = references(storage_of(5, 6, 7, 8, 9)).at_time(millis, Readers(), count)
            assert found.id == number

    @given(
        st.lists(st.integers(1, 9), min_size=1, max_size=40),
        st.integers(0, 10),
        st.sampled_from([1, 2, 3, 16]),
    )
    @example([10, 50, 20, 30, 60, 40], 20, 16)
    def test_clocks_of_writers_may_differ(self, times: list[int], millis: int, count: int) -> None:
        storage = storage_of()
        for number, time in enumerate(times, 1):
            storage.files[f"t/snapshot/snapshot-{number}"] = snapshot_file(number, timeMillis=time)
        expected = as_the_engine_bisects(times, millis)

        if expected is None:
            with pytest.raises(NotFoundError):
                references(storage).at_time(millis, Readers(), count)
        else:
            assert references(storage).at_time(millis, Readers(), count).id == expected

    def test_snapshots_that_expire_meanwhile_are_older_than_those_that_are_there(self) -> None:
        storage = storage_of(6, 7, 8)
        # A listing that has seen one more.
        storage.files["t/snapshot/snapshot-5/x"] = b""

        assert references(storage).at_time(650, Readers(), 16).id == 6
        with pytest.raises(SnapshotExpiredError):
            references(storage).at_time(599, Readers(), 16)

    def test_before_the_first_snapshot(self) -> None:
        with pytest.raises(NotFoundError, match="as old as 499 ms: the oldest, snapshot 5, is of 500 ms"):
            references(storage_of(5, 6)).at_time(499, Readers(), 16)


class TestTags:
    STORAGE = storage_of(5)
    STORAGE.files |= {
        "t/tag/tag-v1": snapshot_file(1, tagCreateTime=[2024, 1, 1, 0, 0], tagTimeRetained="PT1H"),
        "t/tag/tag-rel 2024": snapshot_file(2),
        "t/tag/tag-a/b": snapshot_file(3),
        "t/tag/other": b"",
    }

    def test_a_tag_outlives_its_snapshot(self) -> None:
        assert references(self.STORAGE).tag("v1").id == 1

    def test_a_listing_does_not_see_tags_with_a_slash(self) -> None:
        found, readers = references(self.STORAGE), Readers(2)
        tags = found.tags(readers, None, 10)
        assert {name: tag.id for name, tag in tags.entries.items()} == {"v1": 1, "rel 2024": 2}
        assert tags.last is None
        readers.close()
        assert found.tag("a/b").id == 3

    @pytest.mark.parametrize("name", ["none", "", ".", "..", "../../x", "a//b", "/v1", "v1\x00"])
    def test_other_names(self, name: str) -> None:
        with pytest.raises(NotFoundError, match="has no tag"):
            references(self.STORAGE).tag(name)


def test_snapshots_that_expire_during_a_listing_are_left_out() -> None:
    storage, readers = storage_of(1, 2, 3), Readers(2)
    storage.files["t/snapshot/snapshot-4/x"] = b""
    part = references(storage).existing_snapshots(readers, None, 10)
    assert (list(part.entries), part.last) == ([1, 2, 3], None)
    readers.close()


def test_a_part_of_many_snapshots_reads_no_others() -> None:
    storage, readers = storage_of(*range(1, 2501)), Readers(4)

    first = references(storage).existing_snapshots(readers, None, 10_000)
    assert list(first.entries) == list(range(1, MOST_READS + 1))
    assert len(storage.reads) == MOST_READS

    storage.reads.clear()
    last = references(storage).existing_snapshots(readers, 2495, 3)
    assert (list(last.entries), last.last) == ([2496, 2497, 2498], 2498)
    assert len(storage.reads) == 3
    assert references(storage).existing_snapshots(readers, 2498, 3).last is None
    readers.close()
