"""Merged manifests: which are merged, and that readers find the same files in them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.options.written_files import ManifestOptions
from app.table.commits.changes import identity
from app.table.commits.manifest_writing import write_manifest
from app.table.commits.merging import MergedManifest, merge_manifests
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import FileKind, ManifestEntry
from tests.tables import entry

NEVER = 1 << 40
SMALL = ManifestOptions(target_bytes=1_000_000, merge_min_count=3, full_merge_bytes=NEVER)


def added(*names: str) -> list[ManifestEntry]:
    return [entry(file_name=name) for name in names]


def removed(*names: str) -> list[ManifestEntry]:
    return [entry(FileKind.DELETE, file_name=name) for name in names]


@dataclass
class Version:
    """The manifests of a version; ``sizes`` may say what they like."""

    entries: Sequence[list[ManifestEntry]]
    sizes: Sequence[int] = ()
    files: list[bytes] = field(init=False)
    read: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = [write_manifest(entries, "zstd") for entries in self.entries]
        self.sizes = self.sizes or [len(each) for each in self.files]

    @property
    def manifests(self) -> list[Manifest]:
        return [Manifest.read(each) for each in self.files]

    def merge(self, options: ManifestOptions) -> list[int | MergedManifest]:
        def read(numbers: Sequence[int]) -> list[bytes]:
            self.read += numbers
            return [self.files[number] for number in numbers]

        return merge_manifests(self.sizes, self.manifests, options, read)

    def merged(self, options: ManifestOptions) -> list[int | list[str]]:
        """Return numbers of manifests that stay, and the names in new ones, of removed files with a minus."""
        return [each if isinstance(each, int) else names(entries_of(each)) for each in self.merge(options)]


def entries_of(merged: MergedManifest) -> list[ManifestEntry]:
    read = Manifest.read(merged.content)
    entries = [read.entry(row) for row in range(len(read))]
    assert [merged.manifest.entry(row) for row in range(len(merged.manifest))] == entries
    return entries


def names(entries: list[ManifestEntry]) -> list[str]:
    return ["-" * (each.kind is FileKind.DELETE) + each.file.file_name for each in entries]


def live(manifests: Sequence[Manifest]) -> list[ManifestEntry]:
    return [
        manifest.entry(row)
        for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
        for row in rows.tolist()
    ]


def test_few_small_manifests_stay_and_many_become_one() -> None:
    few = Version([added("a"), added("b")])
    assert few.merged(SMALL) == [0, 1]
    assert not few.read
    assert Version([added("a"), added("b"), added("c")]).merged(SMALL) == [["a", "b", "c"]]


def test_the_engine_merges_thirty_by_default() -> None:
    for count in (29, 30):
        version = Version([added(str(at)) for at in range(count)])
        assert len(version.merged(ManifestOptions())) == (29 if count == 29 else 1)


def test_consecutive_manifests_that_reach_the_target_become_one_where_they_stood() -> None:
    version = Version(
        [added(name) for name in "abcdef"], sizes=(1_000_000, 400_000, 599_999, 1, 5_000_000, 999_999)
    )
    assert version.merged(SMALL) == [0, ["b", "c", "d"], 4, 5]


def test_an_addition_and_its_removal_go_where_both_are_merged() -> None:
    version = Version(
        [added("old"), added("a", "b"), removed("a", "old"), added("c")], sizes=(1_000_000, 1, 1, 1)
    )
    assert version.merged(SMALL) == [0, ["b", "-old", "c"]]


def test_manifests_of_which_nothing_is_left_have_no_successor() -> None:
    version = Version([added("a"), removed("a"), []], sizes=(1, 1, 1))
    assert version.merged(SMALL) == []
    assert not version.read


def test_a_merged_manifest_is_closed_at_the_target() -> None:
    version = Version([[entry(file_name=f"{at}-{row}") for row in range(4_000)] for at in range(3)])
    merged = version.merge(replace(SMALL, target_bytes=len(version.files[0])))
    assert [isinstance(each, int) for each in merged] == [True] * 3
    merged = version.merge(replace(SMALL, target_bytes=len(version.files[0]) + 1))
    assert len(merged) == 2 + 1
    assert merged[-1] == 2


FULL = replace(SMALL, full_merge_bytes=5_000_000)


def test_a_full_merge_leaves_nothing_of_removed_files() -> None:
    """It comes once manifests that are small or remove files take its threshold together."""
    entries = [added("a", "b"), added("c"), added("d"), removed("a"), added("e")]
    assert Version(entries, sizes=(2_000_000, 1_000_000, 999_998, 4_000_000, 2)).merged(FULL) == [
        ["b", "d", "e"],
        1,
    ]
    # Of these the first, the second and the fourth reach the target of a minor merge alone.
    assert Version(entries, sizes=(2_000_000, 1_000_000, 999_998, 3_999_999, 2)).merged(FULL) == [
        0,
        1,
        ["d", "-a"],
        4,
    ]


def test_one_manifest_alone_is_never_merged() -> None:
    assert Version([added("a", "b")], sizes=(5_000_000,)).merged(replace(FULL, target_bytes=NEVER)) == [0]
    assert Version([added("a")], sizes=(1,)).merged(replace(SMALL, merge_min_count=0)) == [0]


def test_manifests_in_other_formats_stay() -> None:
    version = Version([added("a"), added("b"), added("c")])
    version.files[1] = b"ORC" + version.files[1]
    manifests = [Manifest.read(write_manifest(each, "zstd")) for each in version.entries]
    found = merge_manifests(
        version.sizes, manifests, SMALL, lambda numbers: [version.files[at] for at in numbers]
    )
    assert found == [0, 1, 2]


@pytest.mark.parametrize(
    ("entries", "sizes"),
    [
        ([added("a"), added("a"), removed("a"), added("b")], (1_000_000, 1, 1, 1)),
        ([added("a"), removed("a"), added("b"), added("a")], (1, 1, 999_998, 1_000_000)),
    ],
)
def test_nothing_is_merged_where_readers_would_find_other_files(
    entries: list[list[ManifestEntry]], sizes: Sequence[int], caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is added twice and removed once is gone for readers, wherever that stands."""
    assert Version(entries, sizes).merged(SMALL) == [0, 1, 2, 3]
    assert "merged ones would have other files" in caplog.text


def test_manifests_that_cannot_be_copied_stay(caplog: pytest.LogCaptureFixture) -> None:
    version = Version([added("a"), added("b"), added("c")])
    manifests = version.manifests
    version.files[2] = version.files[0][:-20]
    found = merge_manifests(
        version.sizes, manifests, SMALL, lambda numbers: [version.files[at] for at in numbers]
    )
    assert found == [0, 1, 2]
    assert "3 manifests are not merged: " in caplog.text


FILES = st.builds(
    entry,
    partition=st.sampled_from([b"", b"\0\0\0\0"]),
    level=st.sampled_from([0, 5]),
    file_name=st.sampled_from("abcd"),
    row_count=st.integers(0, 9),
    first_row_id=st.none() | st.integers(0, 99),
    embedded_index=st.none() | st.binary(max_size=3),
    extra_files=st.sampled_from([(), ("a.index",)]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[ManifestEntry]]:
    """Draw commits that add files which never were there, and remove some that are."""
    fresh = draw(st.lists(FILES, unique_by=identity))
    there: list[ManifestEntry] = []
    history: list[list[ManifestEntry]] = []
    for each in fresh:
        if not history or draw(st.booleans()):
            history.append([])
        for gone in [old for old in there if draw(st.integers(0, 3)) == 0]:
            there.remove(gone)
            history[-1].append(replace(gone, kind=FileKind.DELETE))
        history[-1].append(each)
        there.append(each)
    return history


@given(st.data())
def test_readers_find_the_same_files_however_manifests_are_merged(data: st.DataObject) -> None:
    history = data.draw(histories())
    count = len(history)
    # Larger than new manifests are, which would be closed otherwise.
    unit = 100_000
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    version = Version(history, [size * unit for size in sizes])
    options = ManifestOptions(
        target_bytes=data.draw(st.integers(1, 30)) * unit,
        merge_min_count=data.draw(st.integers(0, 4)),
        full_merge_bytes=data.draw(st.integers(1, 60)) * unit,
    )
    before = version.manifests

    merged = version.merge(options)

    after = [before[each] if isinstance(each, int) else Manifest.read(each.content) for each in merged]
    assert sorted(live(after), key=str) == sorted(live(before), key=str)
    entries = [len(manifest) for manifest in after]
    assert all(entries)
    assert sum(entries) <= sum(map(len, before))
    # What nobody merges is not read, nor that of which nothing is left.
    gone = {number for number in range(len(before)) if number not in merged}
    assert set(version.read) <= gone
    assert len(version.read) == len(set(version.read))
