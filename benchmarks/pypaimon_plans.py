"""Plans of pypaimon with the service and without, in an environment that has pypaimon.

``python benchmarks/pypaimon_plans.py URL NAME=WAREHOUSE ...`` plans the tables of ``make bench`` that a
service at the URL has by these names, each time with new literals, and prints medians.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from typing import Any

from pypaimon import CatalogFactory

from paimon_index.pypaimon import planned

_RUNS = 7
_MOST_ID = 1 << 62


def _predicates(table: Any, files: int) -> Iterator[Any]:
    """Those of :mod:`benchmarks.questions`: an id that no file has; a tenth of a day's files."""
    builder = table.new_read_builder().new_predicate_builder()
    random = Random(1)
    while any(key.startswith("file-index.") for key in table.options.options.to_map()):
        yield builder.equal("id", random.randrange(_MOST_ID))
    while True:
        day = dt.date(2020, 1, 1) + dt.timedelta(days=random.randrange(files // 100))
        below = builder.less_than("c0", 9_000 + random.randrange(1, 1_000))
        yield builder.and_predicates([builder.equal("day", day), below])


def _files(table: Any, wanted: Any) -> int:
    splits = table.new_read_builder().with_filter(wanted).new_scan().plan().splits()
    return sum(len(split.files) for split in splits)


def _measured(plan: Callable[[Any], int], predicates: Iterator[Any], runs: int) -> str:
    seconds, files = [], 0
    for _ in range(runs):
        wanted, begun = next(predicates), time.perf_counter()
        files = plan(wanted)
        seconds.append(time.perf_counter() - begun)
    return f"{median(seconds) * 1000:10,.1f} ms {files:8,} files"


def main() -> None:
    """Print a line for each table."""
    url, *named = sys.argv[1:]
    warnings.simplefilter("error")
    for name, warehouse in (each.split("=", 1) for each in named):
        table = CatalogFactory.create({"warehouse": warehouse}).get_table("golden.bench")
        size = int(warehouse.rpartition("-")[2])
        predicates = _predicates(table, size)

        def with_service(wanted: Any, table: Any = table, name: str = name) -> int:
            return _files(planned(table, wanted, url, warehouse=name, timeout_seconds=60), wanted)

        def alone(wanted: Any, table: Any = table) -> int:
            return _files(table, wanted)

        first = _measured(with_service, predicates, 1)
        later = _measured(with_service, predicates, _RUNS)
        print(
            f"{name:12} {size:8,} | first {first} | {later} | alone {_measured(alone, predicates, 3)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
