"""Marks of writers in manifest entries, as writers were seen to leave them."""

from typing import Any, Final

import pytest

from app.table.manifests.manifest_entry import FileSource
from app.table.statistics.writers import writes_exact_clocks
from tests.tables import entry, manifest

COMPACT: Final[dict[str, Any]] = {"file_source": FileSource.COMPACT}
APPEND: Final[dict[str, Any]] = {"file_source": FileSource.APPEND}


def marks(*, rows: int, numbers: tuple[int, int], has_primary_key: bool, **changes: Any) -> bool:
    first, last = numbers
    file = entry(row_count=rows, min_sequence_number=first, max_sequence_number=last, **changes)
    mask = writes_exact_clocks(manifest([file]), has_primary_key=has_primary_key)
    return bool(mask[0])


@pytest.mark.parametrize(
    ("rows", "first", "last", "is_exact"),
    [
        pytest.param(10, 0, 9, True, id="the engine's first file"),
        pytest.param(2, 70, 71, True, id="the engine's next file"),
        pytest.param(10, 0, 0, False, id="pypaimon, or files that were migrated from Hive"),
        pytest.param(10, 71, 71, False, id="pypaimon in a bucket to which the engine had written"),
        pytest.param(1, 0, 0, False, id="a single row of anybody"),
        pytest.param(1, 71, 71, False, id="a single row of anybody in a bucket that had rows"),
        pytest.param(10, 1, 11, False, id="one number too many"),
        pytest.param(10, 3, 8, False, id="snapshots that the rows of a tracked table were changed in"),
        pytest.param(10, -1, -1, False, id="not numbered"),
        pytest.param(0, -(2**63), 2**63 - 1, False, id="a difference beyond 64 bits, and no rows"),
    ],
)
def test_numbers_that_count_the_rows_of_a_file_without_key_are_a_mark(
    rows: int, first: int, last: int, is_exact: bool
) -> None:
    found = marks(rows=rows, numbers=(first, last), has_primary_key=False, **APPEND)

    assert found == (is_exact or rows == 0)


@pytest.mark.parametrize(
    ("rows", "first", "last", "level"),
    [
        pytest.param(2, 41, 42, 0, id="pypaimon 1.4.2, cut at the target size"),
        pytest.param(38, 41, 78, 0, id="the same, from rows of two batches"),
        pytest.param(38, 41, 78, 5, id="the same, moved to another level by the engine"),
    ],
)
def test_with_keys_numbers_and_levels_are_no_mark(rows: int, first: int, last: int, level: int) -> None:
    assert not marks(rows=rows, numbers=(first, last), has_primary_key=True, level=level, **APPEND)


@pytest.mark.parametrize("has_primary_key", [False, True])
def test_who_compacted_a_file_has_rewritten_its_bounds(has_primary_key: bool) -> None:
    assert marks(rows=10, numbers=(5, 5), has_primary_key=has_primary_key, **COMPACT)
    assert not marks(rows=10, numbers=(5, 5), has_primary_key=has_primary_key, file_source=None)
