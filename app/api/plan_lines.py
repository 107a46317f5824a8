r"""A plan as NDJSON: one file on each line, and a last line with what is told of the whole.

::

    {"path": "demo.db/events/bucket-0/data-1.parquet", ...}\n     as in the pages of a plan
    ...
    {"summary": {...}, "snapshot_id": 7, ...}\n                   the only line with a summary

With ``explain`` the skipped files follow the kept ones, and every line of a file says which it is. Lines are
made as they are sent, so memory does not grow with the plan; one that ends without a summary was cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from app.api.encoding import JsonMembers, plan_summary, rounded, told_schemas
from app.api.plan_rows import plan_rows
from app.api.selections import SelectionEncoding
from app.api.strict_json import write_json
from app.planning.plan.answers import Plan


def plan_lines(plan: Plan, form: SelectionEncoding, *, explain: bool) -> Iterator[bytes]:
    """The plan in pieces of some whole lines.

    Raises:
        LimitExceededError: a file has more positions than fit one list.
    """
    started, encoding_seconds = time.perf_counter(), 0.0
    for rows in plan_rows(plan, form, tells_skipped=explain, end="\n"):
        _, offsets, content = rows.buffers()
        piece = memoryview(content)[: memoryview(offsets).cast("q")[len(rows)]]
        encoding_seconds += time.perf_counter() - started
        yield bytes(piece)
        started = time.perf_counter()
    end: JsonMembers = {
        "summary": plan_summary(plan.summary),
        "snapshot_id": plan.snapshot_id,
        "schema_id": plan.schema_id,
        **told_schemas(plan),
        "warnings": plan.warnings,
        "unknown_files": plan.unknown_files,
        "timings_ms": rounded({**plan.timings_ms, "encode": encoding_seconds * 1000}),
    }
    yield write_json(end) + b"\n"
