"""What file indexes on their own, without a table, say of a filter.

Files are read and stacked some at a time, since a stack of one costs nearly as much as one of many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from app.errors import (
    CorruptIndexError,
    DeadlineExceededError,
    FilterError,
    PathNotAllowedError,
    StorageError,
    UnsupportedFormatError,
)
from app.file_index import FileIndex, StackedIndex, evaluate, indexed_rows, top_n
from app.file_index.answers import SKIP, Result, Rows, Step
from app.planning.plan.file_plan import ExplainStep
from app.planning.request.budget import UNBOUNDED, asks_much, unasked_warnings
from app.planning.request.filters import filter_warnings, read_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import EvaluateRequest, IndexFileRef
from app.planning.standalone import index_content
from app.predicates import Names, Relation
from app.predicates.model import BoundPredicate, Unknown
from app.storage import Warehouse
from app.types import BytesColumn, DataField, parse_type
from app.types.roaring import Positions
from app.types.session_zone import SessionZone
from app.work import check_deadline

_STACKED_FILES: Final = 256
_STACKED_BYTES: Final = 1 << 20
_REPORTED: Final = (CorruptIndexError, StorageError, UnsupportedFormatError, PathNotAllowedError, FilterError)


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    """What the indexes of one file say.

    ``selection``: rows outside of which nothing matches; None when nothing is known at row level. ``error``:
    the file's indexes could not be used; the file is kept.
    """

    name: str
    skip: bool
    selection: Positions | None
    explain: tuple[ExplainStep, ...] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """The answer to an EvaluateRequest, in request order."""

    files: tuple[EvaluatedFile, ...]
    warnings: tuple[str, ...] = ()


def evaluate_files(
    warehouse: Warehouse,
    request: EvaluateRequest,
    limits: Limits,
    zone: SessionZone | None,
    *,
    any_place: bool,
) -> EvaluateAnswer:
    """What the indexes of each file say; a file that cannot be used is reported, the others are answered.

    Raises FilterError: the filter does not fit the schema. Raises RequestError: a type of the schema cannot
    be read.
    """
    fields = [
        DataField(at, column.name, parse_type(column.type)) for at, column in enumerate(request.columns)
    ]
    relation = Relation(request.alias)
    predicate = read_filter(request.filter, fields, limits, relation, zone, request.in_lists)
    sort_column = None
    if request.top_n is not None:
        names = Names(fields, relation)
        columns = [names.sort_column(key.column) for key in request.top_n.order_by]
        sort_column = columns[0]
    budget, asks_all, unasked = UNBOUNDED.before_deadline(), not asks_much(predicate), 0
    files: list[EvaluatedFile] = []
    while len(files) < len(request.files):
        with ExitStack() as stack:
            following = request.files[len(files) : len(files) + _STACKED_FILES]
            for name, index in _read_some(warehouse, following, stack, any_place=any_place):
                is_asked = asks_all or not budget.out_of_time()
                unasked += not is_asked
                asked = predicate if is_asked else Unknown("a long filter")
                files.append(_evaluate(name, index, request, asked, sort_column))
    return EvaluateAnswer(tuple(files), (*filter_warnings(predicate), *unasked_warnings(unasked)))


def _read_some(
    warehouse: Warehouse, files: Sequence[IndexFileRef], stack: ExitStack, *, any_place: bool
) -> Iterator[tuple[str, Callable[[], FileIndex]]]:
    """Some of the next files, stacked: the name of each, and what gives its indexes or raises why not."""
    read: list[tuple[str, bytes | None, Exception | None]] = []
    size = 0
    for file in files:
        check_deadline()
        try:
            with ExitStack() as reading:
                name, content = reading.enter_context(index_content(warehouse, file, any_place=any_place))
                read.append((name, content, None))
                size += len(content)
                if size >= _STACKED_BYTES:
                    # The last one, which may be large, stays claimed. The others do not: who claims for one
                    # file and holds claims for others could wait for somebody who does so, too.
                    stack.push(reading.pop_all())
                    break
        except DeadlineExceededError:
            raise
        except _REPORTED as error:
            read.append((file.name or file.path or "content", None, error))
    stacked = StackedIndex.read(BytesColumn.of([content for _, content, _ in read]))

    def index_of(file: int) -> FileIndex:
        error = read[file][2]
        if error is not None:
            raise error
        return stacked.file_index(file)

    for number, (name, _, _) in enumerate(read):
        yield name, partial(index_of, number)


def _evaluate(
    name: str,
    index: Callable[[], FileIndex],
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
) -> EvaluatedFile:
    check_deadline()
    trace: list[Step] = []
    try:
        answer = _ask(index(), request, predicate, sort_column, trace)
    except DeadlineExceededError:
        raise
    except _REPORTED as error:
        shown = error.at(name) if isinstance(error, CorruptIndexError) else error
        return EvaluatedFile(name, skip=False, selection=None, error=shown)
    steps = tuple(ExplainStep.of(step) for step in trace) if request.explain else None
    positions = answer.positions if isinstance(answer, Rows) else None
    return EvaluatedFile(name, answer is SKIP, positions, steps)


def _ask(
    index: FileIndex,
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
    trace: list[Step],
) -> Result:
    top_rows, row_count = request.top_n, request.row_count
    if top_rows is None or sort_column is None:
        return evaluate(predicate, index, row_count=row_count, trace=trace)
    # Without a filter every row is in question, and only an index can tell how many there are.
    known = row_count if row_count is not None else indexed_rows(index, sort_column)
    first = top_rows.order_by[0]
    return top_n(
        index,
        sort_column,
        descending=first.descending,
        nulls_first=first.nulls_first,
        limit=top_rows.limit,
        strict=len(top_rows.order_by) == 1,
        selection=evaluate(predicate, index, row_count=known, trace=trace),
    )
