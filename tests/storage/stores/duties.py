"""What every store owes: plans as from a disk, files that end where they end, one winner of writers."""

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from app.errors import FileMissingError
from app.planning.request.requests import PlanRequest
from app.planning.service import IndexService
from app.storage import Warehouse
from app.storage.writing import Writing
from tests.golden_cases import GoldenWarehouse, expected
from tests.tables import golden_ref, open_service

TABLES: Final = ("append_sidecar", "append_dv64", "pk_dv", "all_types_orc")
"""Golden tables that a store is filled with."""


def opened(url: str) -> IndexService:
    return open_service(Path("/"), url=url)


def check_plans(golden: GoldenWarehouse, url: str, table: str) -> None:
    """Plans of a copied golden table keep the files that they keep on a disk."""
    filters = [each["filter_sql"] for each in expected(table)["queries"] if each["filter_sql"]]
    requests = [PlanRequest(filter=written) for written in [None, *filters[:20]]]

    with closing(open_service(golden.root)) as local, closing(opened(url)) as remote:
        for request in requests:
            plans = [service.plan(golden_ref(table), request) for service in (local, remote)]
            kept, others = ([file.file_name for file in plan.files] for plan in plans)
            assert kept == others


def check_ends(warehouse: Warehouse) -> None:
    """Ranges give what is there, and no more."""
    Writing(warehouse).create("short", b"abc")

    assert warehouse.read("short") == b"abc"
    assert warehouse.read_ranges([("short", 1, 9), ("short", 3, 2), ("short", 7, 2)]) == [b"bc", b"", b""]
    with pytest.raises(FileMissingError):
        warehouse.read("nowhere")
    warehouse.readers.close()


def check_creation(warehouse: Warehouse) -> None:
    """One of several who create a file succeeds, no draft is left, and what is gone may be deleted again."""
    writing = Writing(warehouse)

    assert writing.create("snapshot-1", b"first")
    assert not writing.create("snapshot-1", b"second")
    assert writing.create("snapshot-1", b"first"), "its own, whose answer got lost"
    writing.replace("LATEST", b"1")
    writing.replace("LATEST", b"2")

    assert warehouse.read("snapshot-1") == b"first"
    assert warehouse.read("LATEST") == b"2"
    assert [name for name in warehouse.list_names("") if name.endswith(".tmp")] == []
    writing.delete("snapshot-1")
    writing.delete("snapshot-1")
    with pytest.raises(FileMissingError):
        warehouse.read("snapshot-1")
    warehouse.readers.close()
