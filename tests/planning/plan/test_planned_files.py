"""The files of a plan: a sequence that says what their manifests say, and keeps none of these alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.file_index import container
from app.file_index.index_kinds import BITMAP
from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import FilePlan, KeepReason
from app.planning.request.requests import SelectionForm
from app.planning.service import IndexService
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, names_of, no_statistics, payload
from tests.table.entries import entry

DAY, NUMBER = DataField(0, "day", parse_type("INT")), DataField(1, "number", parse_type("INT"))
ROWS = 1000
OUTSIDE = "s3://elsewhere/outside.orc"


@pytest.fixture
def made(tmp_path: Path) -> MadeTable:
    """Files of two partitions in two manifests; every third row of each has the number 1."""
    index = container.write(
        {"number": [("bitmap", payload(BITMAP, [row % 3 for row in range(ROWS)], NUMBER))]}
    )
    rows = [serialize_row([day], [DAY.type]) for day in (7, None)]
    files = [
        entry(
            partition=rows[at % 2],
            bucket=at,
            file_name=f"data-{at}.parquet",
            row_count=ROWS,
            file_size=10 + at,
            level=at,
            min_sequence_number=at,
            max_sequence_number=at + 9,
            embedded_index=index,
            external_path=OUTSIDE if at == 3 else None,
            **no_statistics(),
        )
        for at in range(4)
    ]
    made = MadeTable.make(tmp_path, [DAY, NUMBER], partitioned_by=[DAY])
    made.commit(files[:3], files[3:])
    return made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    with closing(open_service(tmp_path)) as service:
        yield service


def test_each_file_is_described_as_its_manifest_does(made: MadeTable, service: IndexService) -> None:
    version = made.version(service)
    plan = made.plan(service, "number = 1")

    assert len(plan.files) == 4
    for at, file in enumerate(plan.files):
        written = version.files().entry(at)
        assert isinstance(file, FilePlan)
        assert (file.file_name, file.file_size, file.row_count) == (f"data-{at}.parquet", 10 + at, ROWS)
        assert (file.level, file.bucket, file.total_buckets, file.schema_id) == (at, at, -1, 0)
        assert (file.min_sequence_number, file.max_sequence_number) == (at, at + 9)
        assert (file.format, file.partition) == ("parquet", {"day": None if at % 2 else 7})
        assert file.path == version.source.paths.data_file(written)
        assert (file.reason, file.raw_convertible, file.merge_group) == (KeepReason.MATCHED, True, None)
        assert (file.residual, file.deletion, file.explain) == (False, None, None)
        assert file.selection is not None
        assert set(file.selection) == set(range(1, ROWS, 3))
        assert file.selected_rows == len(file.selection)
    assert plan.files[3].path == OUTSIDE


def test_files_are_a_sequence(made: MadeTable, service: IndexService) -> None:
    files = made.plan(service).files
    listed = list(files)

    assert names_of(listed) == [f"data-{at}.parquet" for at in range(4)]
    assert files[-1] == files[3] == listed[3]
    assert files[1:3] == listed[1:3]
    assert files[::-2] == listed[::-2]
    assert files[9:] == []
    assert list(reversed(files)) == listed[::-1]
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            files[beyond]


@pytest.mark.parametrize("written", [None, "number = 1", "day = 7"])
def test_a_plan_keeps_no_manifest_alive(made: MadeTable, service: IndexService, written: str | None) -> None:
    plan = made.plan(service, written, explain=True)
    held = [weakref.ref(manifest.file_sizes) for manifest in made.version(service).manifests()]
    before = [repr(file) for file in plan.files]

    service.clear_caches()
    gc.collect()

    assert [reference() for reference in held] == [None, None]
    assert [repr(file) for file in plan.files] == before


def test_a_plan_weighs_what_it_gives_out(made: MadeTable, service: IndexService) -> None:
    def plan(written: str, form: SelectionForm, *, explain: bool = False) -> Plan:
        return made.plan(service, written, selection=form, explain=explain)

    counted = plan("number = 1", SelectionForm.COUNT)
    with_rows = plan("number = 1", SelectionForm.BITMAP)
    fewer = plan("number = 1 AND day = 7", SelectionForm.BITMAP)
    explained = plan("number = 1", SelectionForm.COUNT, explain=True)

    assert with_rows.nbytes - counted.nbytes == 2 * 4 * len(range(1, ROWS, 3))
    assert counted.nbytes < fewer.nbytes < with_rows.nbytes
    assert explained.nbytes > counted.nbytes
    assert service.cache_statistics()["plans"]["bytes"] == sum(
        each.nbytes for each in (counted, with_rows, fewer, explained)
    )
