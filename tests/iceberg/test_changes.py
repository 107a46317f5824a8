"""What was appended between two snapshots, in tables whose commits are made up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from app.errors import UnsupportedFormatError
from app.iceberg.catalog import Catalog
from app.iceberg.plan_tokens import PlanQuestion
from app.planning.request.limits import Limits
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from tests.planning.copied_tables import golden_ref, open_service
from tests.planning.made_tables import MadeTable
from tests.table.entries import entry

ID: Final = DataField(0, "id", parse_type("INT"))


def test_an_append_that_removes_files_has_rewritten_rows_in_what_it_adds(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID])
    first = entry(file_name="first.parquet")
    table.commit([first])
    table.commit([first, entry(FileKind.DELETE, file_name="first.parquet"), entry(file_name="new.parquet")])

    with closing(open_service(tmp_path)) as service:
        catalog = Catalog(service, Limits(), 60_000)
        with pytest.raises(UnsupportedFormatError, match=r"snapshot 2 .* removes files"):
            catalog.plan(golden_ref("made"), PlanQuestion(2, start_snapshot_id=1))
        assert catalog.plan(golden_ref("made"), PlanQuestion(1, start_snapshot_id=0))["file-scan-tasks"]
