"""The table of the benchmark of Spark: its queries have the answers that they are named after."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.planning.request.requests import PlanRequest, TableRef
from benchmarks.spark.report import Measurement, tables
from benchmarks.spark.table import NAME, write_table
from tests.tables import open_service

_FILES, _ROWS = 8, 24_000
_EVENTS = pa.table({"file": pa.array([], pa.int64())})


def test_a_plan_keeps_the_rows_of_each_query(tmp_path: Path) -> None:
    queries = write_table(tmp_path, _FILES, _ROWS)
    service = open_service(tmp_path)
    found: dict[str, pa.Table] = {}

    for query in queries:
        plan = service.plan(TableRef("golden", "db", NAME), PlanRequest(filter=query.where))
        rows = [_EVENTS.slice(0, 0)]
        for number, file in enumerate(plan.files):
            events = pq.read_table(tmp_path / file.path, partitioning=None)
            taken = events if file.selection is None else events.take(pa.array(file.selection))
            rows.append(taken.append_column("file", pa.array([number] * taken.num_rows, pa.int64())))
        found[query.name] = pa.concat_tables(rows, promote_options="default")
    service.close()

    files = {name: len(rows["file"].unique()) if rows.num_rows else 0 for name, rows in found.items()}
    assert [files[name] for name in ("point, bloom filter", "absent value", "OR of two bloom filters")] == [
        1,
        0,
        2,
    ]
    assert found["rare amount, range bitmap"].num_rows == 10
    assert files["rare country, rows in most files"] > _FILES / 2
    assert set(found["rare country, rows in most files"]["country"].to_pylist()) == {"C199"}
    assert files["narrow range, rows in most files"] > _FILES / 2
    assert found["everything"].num_rows == _ROWS


@pytest.mark.parametrize(("calls", "last"), [(0, "1.0"), (7, "7")])
def test_a_cell_has_the_medians_of_its_runs(calls: int, last: str) -> None:
    measured = [
        Measurement("point", way, 1, seconds, seconds / 2, 1_000_000, calls)
        for way, all_seconds in {"connector": (1.0, 8.0, 2.0), "auto": (0.5, 0.4, 9.0)}.items()
        for seconds in all_seconds
    ]

    text = tables(measured, {"point": 5}, 650)

    assert f"| point | 1 | 650 → 5 | 2,000 / 1,000 / {last} | 500 / 250 / {last} |" in text
