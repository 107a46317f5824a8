"""The files of a plan as JSON objects, written from columns: an object of Python for each would take longer.

Values of a column become Python's all at once, and a partition becomes JSON once, however many files it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from app.api.strict_json import write_json
from app.planning.drafts import decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.api.encoding import Form
    from app.planning.answers import Plan
    from app.planning.planned_files import PlannedFiles

_AT_ONCE: Final = 512


def plan_rows(plan: Plan, form: Form, offset: int = 0, *, tells_skipped: bool = False) -> Iterator[bytes]:
    """The kept files and then the skipped ones, each as a JSON object, made some at a time.

    Args:
        plan: what was planned.
        form: how positions are written.
        offset: how many files to leave out at the beginning.
        tells_skipped: each object says by a member ``skipped`` which it is.

    Raises:
        LimitExceededError: a file has more positions than fit one list.
    """
    for files, form_here, is_skipped in ((plan.files, form, False), (plan.skipped_files, None, True)):
        more = {"skipped": is_skipped} if tells_skipped else {}
        for start in range(offset, len(files), _AT_ONCE):
            yield from _rows(files, start, min(start + _AT_ONCE, len(files)), form_here, more)
        offset = max(0, offset - len(files))


def _rows(
    files: PlannedFiles, start: int, stop: int, form: Form | None, more: dict[str, bool]
) -> list[bytes]:
    """The files from ``start`` to ``stop``; without a form they were skipped, and no rows are told."""
    columns = _columns(files, start, stop)
    names = tuple(columns)
    rows: list[dict[str, Any]] = [
        dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    if form is not None:
        for at, (row, selected) in enumerate(
            zip(rows, files.integers["selected_rows"][start:stop].tolist(), strict=True), start
        ):
            row["selected_rows"] = selected
            row.update(form.members(files.selections.get(at), row["row_count"]))
    if files.steps is not None:
        for at, row in enumerate(rows, start):
            row["explain"] = files.steps[at]
    if more:
        for row in rows:
            row.update(more)
    return [write_json(row) for row in rows]


def _columns(files: PlannedFiles, start: int, stop: int) -> dict[str, list[Any]]:
    """The members that kept and skipped files have, in the order in which they are written."""
    here = slice(start, stop)
    paths, names, formats = (each.to_numpy(zero_copy_only=False) for each in files.texts(start, stop))
    numbers = {name: values[here].tolist() for name, values in files.integers.items()}
    for name, values in (("first_row_id", files.first_row_ids), ("merge_group", files.merge_groups)):
        numbers[name] = [None if value < 0 else value for value in values[here].tolist()]
    codes = files.partition_codes[here].tolist()
    partitions = {code: orjson.Fragment(write_json(files.partition(code))) for code in set(codes)}
    reasons = files.decisions[here].tolist()
    written = {code: decision(code).value for code in set(reasons)}
    return {
        "path": paths.tolist(),
        "file_name": names.tolist(),
        "format": formats.tolist(),
        "file_size": numbers["file_size"],
        "row_count": numbers["row_count"],
        "schema_id": numbers["schema_id"],
        "level": numbers["level"],
        "partition": [partitions[code] for code in codes],
        "bucket": numbers["bucket"],
        "total_buckets": numbers["total_buckets"],
        "min_sequence_number": numbers["min_sequence_number"],
        "max_sequence_number": numbers["max_sequence_number"],
        "first_row_id": numbers["first_row_id"],
        "raw_convertible": files.raw_convertible[here].tolist(),
        "merge_group": numbers["merge_group"],
        "residual": files.residual[here].tolist(),
        "deletion": [files.deletions.get(at) for at in range(start, stop)],
        "decision_reason": [written[code] for code in reasons],
    }
