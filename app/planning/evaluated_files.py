"""Evaluation of a filter on file indexes alone, without a table."""

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
from app.planning.request.budget import UNBOUNDED, budget_warnings, needs_budget
from app.planning.request.filters import filter_warnings, read_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import EvaluateRequest, IndexFileRef
from app.planning.standalone import index_content
from app.predicates import NAMELESS, Names
from app.predicates.model import BoundPredicate, Unknown
from app.storage import Warehouse
from app.types import BytesColumn, DataField, parse_type
from app.types.roaring import Positions
from app.work import check_deadline

# Files are stacked in batches: a stack of one costs nearly as much as one of many.
_STACKED_FILES: Final = 256
_STACKED_BYTES: Final = 1 << 20
_REPORTED: Final = (CorruptIndexError, StorageError, UnsupportedFormatError, PathNotAllowedError, FilterError)


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict of one file's indexes."""

    name: str
    skip: bool
    # No row outside these positions matches. None if the indexes cannot find rows.
    selection: Positions | None
    explain: tuple[ExplainStep, ...] | None = None
    error: Exception | None = None  # Reason why the indexes could not be used. The file is kept.


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """The answer to an EvaluateRequest, in request order."""

    files: tuple[FileVerdict, ...]
    warnings: tuple[str, ...] = ()


def evaluate_files(
    warehouse: Warehouse,
    request: EvaluateRequest,
    limits: Limits,
    *,
    any_place: bool,
) -> EvaluateAnswer:
    """Evaluate the filter on the indexes of each file. A file that cannot be used gets an error of its own.

    Raises FilterError if the filter does not fit the schema. Raises RequestError if a type cannot be read.
    """
    fields = [
        DataField(at, column.name, parse_type(column.type)) for at, column in enumerate(request.columns)
    ]
    predicate = read_filter(request.filter, fields, limits, NAMELESS, request.in_lists)
    sort_column = None
    if request.top_n is not None:
        names = Names(fields)
        columns = [names.sort_column(key.column) for key in request.top_n.order_by]
        sort_column = columns[0]
    budget, is_short, unevaluated_files = UNBOUNDED.before_deadline(), not needs_budget(predicate), 0
    files: list[FileVerdict] = []
    while len(files) < len(request.files):
        with ExitStack() as stack:
            batch = request.files[len(files) : len(files) + _STACKED_FILES]
            for name, index in _read_batch(warehouse, batch, stack, any_place=any_place):
                has_time = is_short or not budget.out_of_time()
                unevaluated_files += not has_time
                decided = predicate if has_time else Unknown("a long filter")
                files.append(_evaluate(name, index, request, decided, sort_column))
    return EvaluateAnswer(tuple(files), (*filter_warnings(predicate), *budget_warnings(unevaluated_files)))


def _read_batch(
    warehouse: Warehouse, files: Sequence[IndexFileRef], stack: ExitStack, *, any_place: bool
) -> Iterator[tuple[str, Callable[[], FileIndex]]]:
    """Read and stack the next files. Yield names with functions that return the index, or raise."""
    contents: list[tuple[str, bytes | None, Exception | None]] = []
    size = 0
    for file in files:
        check_deadline()
        try:
            with ExitStack() as reading:
                name, content = reading.enter_context(index_content(warehouse, file, any_place=any_place))
                contents.append((name, content, None))
                size += len(content)
                if size >= _STACKED_BYTES:
                    # Only the last file, which may be large, stays claimed: two requests that hold claims
                    # while they claim more could wait for each other.
                    stack.push(reading.pop_all())
                    break
        except DeadlineExceededError:
            raise
        except _REPORTED as error:
            contents.append((file.name or file.path or "content", None, error))
    stacked = StackedIndex.read(BytesColumn.of([content for _, content, _ in contents]))

    def index_of(file: int) -> FileIndex:
        error = contents[file][2]
        if error is not None:
            raise error
        return stacked.file_index(file)

    for number, (name, _, _) in enumerate(contents):
        yield name, partial(index_of, number)


def _evaluate(
    name: str,
    index: Callable[[], FileIndex],
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
) -> FileVerdict:
    check_deadline()
    trace: list[Step] = []
    try:
        answer = _evaluate_index(index(), request, predicate, sort_column, trace)
    except DeadlineExceededError:
        raise
    except _REPORTED as error:
        shown = error.at(name) if isinstance(error, CorruptIndexError) else error
        return FileVerdict(name, skip=False, selection=None, error=shown)
    steps = tuple(ExplainStep.of(step) for step in trace) if request.explain else None
    positions = answer.positions if isinstance(answer, Rows) else None
    return FileVerdict(name, answer is SKIP, positions, steps)


def _evaluate_index(
    index: FileIndex,
    request: EvaluateRequest,
    predicate: BoundPredicate,
    sort_column: DataField | None,
    trace: list[Step],
) -> Result:
    top_rows, row_count = request.top_n, request.row_count
    if top_rows is None or sort_column is None:
        return evaluate(predicate, index, row_count=row_count, trace=trace)
    # Without a filter every row is a candidate, and only an index has the number of rows.
    rows = row_count if row_count is not None else indexed_rows(index, sort_column)
    first = top_rows.order_by[0]
    return top_n(
        index,
        sort_column,
        descending=first.descending,
        nulls_first=first.nulls_first,
        limit=top_rows.limit,
        strict=len(top_rows.order_by) == 1,
        selection=evaluate(predicate, index, row_count=rows, trace=trace),
    )
