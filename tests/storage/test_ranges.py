from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.storage.ranges import FileRange, batches, merge_ranges, portions

GAP, LONGEST = 8 << 10, 8 << 20
RANGES = st.builds(
    FileRange,
    st.sampled_from(["a", "b"]),
    st.integers(0, 1 << 24),
    st.one_of(st.integers(0, 1 << 10), st.integers(0, 1 << 24)),
)


def test_neighbours_of_one_file_are_read_together() -> None:
    head, body, far, other = (
        FileRange("a", 0, 512),
        FileRange("a", 512 + GAP, 100),
        FileRange("a", 512 + GAP + 100 + GAP + 1, 100),
        FileRange("b", 512, 10),
    )
    merged = merge_ranges([far, other, body, head])
    assert [(one.whole, one.parts) for one in merged] == [
        (FileRange("a", 0, body.end), [head, body]),
        (far, [far]),
        (other, [other]),
    ]


def test_overlapping_ranges_are_read_once() -> None:
    outer, inner, tail = FileRange("a", 0, 100), FileRange("a", 10, 20), FileRange("a", 90, 20)
    (merged,) = merge_ranges([tail, inner, outer])
    assert merged.whole == FileRange("a", 0, 110)


def test_no_merged_range_grows_without_bound() -> None:
    ranges = [FileRange("a", start << 20, 1 << 20) for start in range(100)]
    assert {merged.whole.length for merged in merge_ranges(ranges)} == {LONGEST, 4 << 20}


@given(st.lists(RANGES, max_size=30))
def test_each_range_lies_in_one_that_is_read(ranges: list[FileRange]) -> None:
    merged = merge_ranges(ranges)
    assert sorted(part for one in merged for part in one.parts) == sorted(ranges)
    for one in merged:
        for part in one.parts:
            assert part.path == one.whole.path
            assert one.whole.offset <= part.offset
            assert part.end <= one.whole.end
        assert one.whole.length <= max(LONGEST, *(part.length for part in one.parts))
        assert one.whole.length <= sum(part.length + GAP for part in one.parts)


def test_small_files_of_this_machine_are_read_in_batches() -> None:
    small = merge_ranges([FileRange(f"{number:02}", 0, 10) for number in range(40)])
    large = merge_ranges([FileRange("large", 0, 1 << 20)])
    found = list(batches([*small, *large, *small], is_local=True))
    assert [each for batch in found for each in batch] == [*small, *large, *small]
    assert [len(batch) for batch in found] == [16, 16, 9, 16, 16, 8]
    assert [len(batch) for batch in batches(small, is_local=False)] == [1] * 40


@given(st.lists(RANGES, max_size=30), st.integers(1, 1 << 25))
def test_portions_are_bounded(ranges: list[FileRange], most_bytes: int) -> None:
    merged = merge_ranges(ranges)
    found = list(portions(merged, most_bytes))
    assert [each for portion in found for each in portion] == merged
    for portion in found:
        assert len(portion) == 1 or sum(each.whole.length for each in portion) <= most_bytes
