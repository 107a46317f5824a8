"""Aggregates of a version, as far as statistics and indexes determine them.

A plan names the files that a filter keeps, and the rows of each that can match. A file is *settled* if these
are exactly the matching rows, and the values that each aggregate needs are known:

==================  ==========================================================================================
aggregate           what settles a file whose matching rows are known
==================  ==========================================================================================
COUNT of rows       nothing else
COUNT of a column   the number of nulls in its statistics, if every row matches and lives, or if all of the
                    file's rows are NULL or none is; else an index
MIN, MAX            bounds in its statistics, if these are values and every row matches, or none is NULL and
                    they are equal; else an index
SUM                 bounds of that kind that are equal; else an index
facets              an index with the rows of each value: bitmap, range bitmap or BSI
==================  ==========================================================================================

Values of partition columns are always known. Files that are not settled, such as those that merge or whose
index is missing, are *open* unless they cannot change a value. Open files widen each value to a range that
surely holds it. A caller who reads just these files, and adds their values to the settled ones, has the exact
answer.

Values of CHAR are padded, those of FLOAT and DOUBLE have no exact sum, and timestamps of more than six digits
share keys: where that matters, files are open, except for partition columns (:mod:`app.aggregates.values`).
"""

from __future__ import annotations

import numpy as np

from app.aggregates.answers import AggregateAnswer, AggregateRequest
from app.aggregates.facets import Facets
from app.aggregates.question import ResolvedRequest
from app.aggregates.totals import Totals
from app.errors import UnsupportedFormatError
from app.planning import Version, decide
from app.planning.request import PlanRequest, SelectionForm
from app.planning.request.limits import Limits
from app.work import LEDGER, Claim


def aggregate(version: Version, request: AggregateRequest, limits: Limits) -> AggregateAnswer:
    """Compute the aggregates of a version. Ignore the request's selector.

    Raises FilterError if the filter cannot be read, a column is missing, or groups have several columns or
    anything but COUNT of rows. Raises RequestError if a function or a group is not defined for its column, or
    a sum exceeds its type. Raises UnsupportedFormatError if the table spreads rows over several files.
    """
    if version.schema.options.data_evolution:
        raise UnsupportedFormatError(
            f"table {version.table.name}: with data-evolution.enabled several files hold parts of the same "
            "rows, which are not counted here: ask the engine"
        )
    # Hold the claim until the answer is made, since it is made of the rows that the plan finds.
    with LEDGER.claim("plans", path=version.table.name, line=version.source.warehouse.name) as claim:
        return _answer(version, request, limits, claim)


def _answer(version: Version, request: AggregateRequest, limits: Limits, claim: Claim) -> AggregateAnswer:
    question = ResolvedRequest.of(version, request)
    form = SelectionForm.POSITIONS if question.needs_values else SelectionForm.COUNT
    plan_request = PlanRequest(filter=request.filter, selection=form, totals=True)
    decisions = decide(version, plan_request, limits, claim=claim.grow_to)
    state = decisions.state
    kept = state.left()
    is_exact = state.is_exact(kept)
    answer: Facets | Totals
    if question.group is None:
        answer = Totals(version, question, state)
    else:
        answer = Facets(version, question, state, question.group)
    unsettled = np.array(answer.take(kept[is_exact]), np.int64)
    opened = np.sort(np.concatenate([kept[~is_exact], unsettled]))
    version.keep_derived()
    groups, groups_total = answer.groups(opened, request.top)
    if isinstance(answer, Totals) and all(value.exact for value in groups[0].values):
        opened = opened[:0]
    warnings = (
        *question.doubts.values(),
        *decisions.warnings.all,
        *answer.warnings,
    )
    files = state.files
    return AggregateAnswer(
        version.snapshot_id,
        round(version.resolved.age_ms),
        not len(opened),
        groups,
        groups_total,
        [name.decode() for name in files.names(opened).to_pylist()],
        int(files.columns.file_sizes[opened].sum()),
        int(state.rows_left[opened].sum()),
        len(files),
        tuple(dict.fromkeys(warnings)),
    )
