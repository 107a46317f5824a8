"""Advice and what-if over tables of the Java engine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.advice.table_advice import advise_table
from app.advice.what_if import WhatIfRequest, try_indexes
from app.errors import PaimonIndexError
from app.file_index.container import FileIndex
from app.file_index.index_kinds import KINDS
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.usage import TableUsage
from app.planning.version.version import Version
from app.types.session_zone import session_zone
from tests import golden_tables
from tests.golden_cases import for_each
from tests.golden_tables import GoldenWarehouse
from tests.planning.copied_tables import CopiedTable, golden_ref, open_service

# Every file has just the indexes that the options name.
BUILT = ["append_sidecar", "append_embedded", "append_partitioned", "append_orc", "map_index", "all_types"]


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> IndexService:
    return open_service(golden.root, golden.allow_external(), engine_writes_only=True)


def payload_bytes(version: Version) -> int:
    """Of every index of every file, file by file."""
    files, indexes = version.files().all(), FileIndexes(version)
    indexed = files[indexes.has_index(files)]
    wanted = frozenset((each.column, KINDS[each.kind]) for each in version.schema.options.file_indexes)
    total = 0
    for _, index in indexes.open(np.sort(indexed), wanted):
        assert isinstance(index, FileIndex)
        total += sum(entry.length for listed in index.entries.values() for entry in listed)
    return total


@for_each("name", golden_tables.tables())
def test_every_table_is_advised_on(service: IndexService, name: str) -> None:
    version = service.resolve(golden_ref(name), SnapshotSelector())
    try:
        files = len(version.files())
    except PaimonIndexError as error:
        with pytest.raises(type(error)):
            advise_table(version, TableUsage())
        return

    found = advise_table(version, TableUsage())

    assert found.files == files
    # Golden tables are small.
    assert all("too little for any index to matter" in each for each in found.warnings)
    assert len(found.warnings) == bool(found.advice)
    assert found.index_bytes >= sum(each.bytes for each in found.indexes if each.declared)
    assert all(each.files + each.files_without <= files for each in found.indexes)
    if name in BUILT:
        assert found.index_bytes == payload_bytes(version)
        assert found.files_without_index == 0


def conditions(name: str) -> list[Any]:
    queries = golden_tables.expected(name)["queries"]
    latest = [
        query["filter_sql"] or query["predicate"]
        for query in queries
        if not (query["tag"] or query["branch"] or query["topn"] or query["limit"] or query["snapshot_id"])
    ]
    return [each for each in latest if each]


@pytest.mark.parametrize("name", BUILT)
def test_what_if_says_what_the_engines_indexes_do(
    golden: GoldenWarehouse, tmp_path: Path, service: IndexService, name: str
) -> None:
    bare = CopiedTable.copy(golden, name, tmp_path)
    for path in bare.directory.glob("schema/schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["file-index.read.enabled"] = "false"
        path.write_text(json.dumps(schema))
    version = bare.service.resolve(bare.ref, SnapshotSelector())
    filters = conditions(name)[:40]

    declared = version.schema.options.file_indexes
    request = WhatIfRequest(declared, filters, files=1_000, bytes=1 << 30)
    found = try_indexes(version, request, Limits(), session_zone("UTC"))

    left_out = 0
    for written, effect in zip(filters, found.filters, strict=True):
        asked = PlanRequest(filter=written, selection=SelectionForm.NONE, time_zone="UTC")
        kept = service.plan(golden_ref(name), asked).summary.files_kept
        assert effect.files_kept - effect.effects[-1].files == kept, written
        left_out += effect.effects[-1].files > 0
    assert left_out > len(filters) / 10
