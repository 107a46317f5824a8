"""Tables whose option says that rows are counted, and whose files do not, are append tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.errors import UnsupportedFormatError
from app.planning.request.requests import PlanRequest
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable
from tests.table.entries import EMPTY_ROW, entry

ID = DataField(0, "id", parse_type("BIGINT"))
ONE_ROW = serialize_row([7], [ID.type])


@pytest.mark.parametrize(
    ("mode", "has_primary_key", "min_key", "counts"),
    [
        ("change-log", False, ONE_ROW, True),
        ("Change-Log ", False, ONE_ROW, True),
        ("change-log", False, EMPTY_ROW, False),
        ("change-log", True, ONE_ROW, False),
        ("append-only", False, EMPTY_ROW, False),
        (None, False, EMPTY_ROW, False),
    ],
)
def test_rows_are_counted_by_the_option_and_keys_of_files_together(
    tmp_path: Path,
    mode: str | None,
    has_primary_key: bool,  # noqa: FBT001 - a parameter of the test
    min_key: bytes,
    counts: bool,  # noqa: FBT001 - likewise
) -> None:
    options = {} if mode is None else {"write-mode": mode}
    table = MadeTable.make(tmp_path, [ID], primary_key=[ID] if has_primary_key else [], options=options)
    table.commit([entry(min_key=min_key, max_key=min_key)])
    service = open_service(tmp_path)
    try:
        if counts:
            with pytest.raises(UnsupportedFormatError, match="value_count"):
                service.plan(table.ref, PlanRequest())
        else:
            assert len(service.plan(table.ref, PlanRequest()).files) == 1
    finally:
        service.close()
