"""Deleted positions of one large data file, from the decoded vector to what an answer holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from pyroaring import BitMap

from app.api.answers.selections import encode_positions
from app.deletion_vectors import read_vector, vector32
from app.deletion_vectors.file import write_record
from app.planning.request.requests import SelectionForm
from benchmarks.workload import Suite, Target, Workload

LARGEST: Final = 1_000_000
SMALLER: Final = 100_000
_ROWS_A_DELETE: Final = 4
_TARGET: Final = Target(1)
_NO_LIMIT: Final = 1 << 40


def suites() -> Iterator[Suite]:
    """Measure encoding and decoding of two numbers of deletes."""
    for deletes in (SMALLER, LARGEST):
        yield Suite(f"deletions, {deletes} deletes", partial(_workloads, deletes))


def encode_name(form: SelectionForm) -> str:
    """Return what results call the encoding of positions."""
    return f"deleted positions as {form}"


def _workloads(deletes: int, directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    rows = np.random.default_rng(deletes).permutation(deletes * _ROWS_A_DELETE)[:deletes]
    record = write_record(vector32.write(BitMap(rows.astype(np.uint32))))
    positions = read_vector(record).positions
    for form in (SelectionForm.BITMAP, SelectionForm.RANGES):
        is_target = deletes == LARGEST and form is SelectionForm.BITMAP
        yield Workload(
            encode_name(form),
            deletes,
            partial(encode_positions, positions, form, _NO_LIMIT),
            target=_TARGET if is_target else None,
        )
    yield Workload("deletion vector from bytes", deletes, partial(read_vector, record))
