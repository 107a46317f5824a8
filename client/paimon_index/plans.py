"""Plans as they arrive: the files that a query reads, one Arrow batch after the other.

Facts about the whole plan arrive before its first file. A plan can be read once. One that ends early raises
:class:`IncompleteAnswerError`, also after it has yielded files.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_index.arrow_stream import ArrowStream
from paimon_index.decoding import decode
from paimon_index.errors import IncompleteAnswerError
from paimon_index.results import DeletionFile, ExplainStep, PlanFacts, PlannedFile
from paimon_index.selections import Selection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import pandas as pd

    from paimon_index.options import PlanOptions
    from paimon_index.selections import Form

_MEMBERS: Final = frozenset(field.name for field in fields(PlannedFile))
_FACTS: Final = tuple(field.name for field in fields(PlanFacts))
_NEEDED: Final = tuple(field.name for field in fields(PlanFacts) if field.default is MISSING)


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """Received files, kept files of the whole plan, and received bytes."""

    files: int
    files_kept: int
    received_bytes: int


Progress: TypeAlias = "Callable[[PlanProgress], None]"


class PlanReader:
    """Converts bytes to batches and files, for the blocking and the asynchronous plan."""

    def __init__(self, options: PlanOptions, progress: Progress | None) -> None:
        self._stream = ArrowStream()
        self._form = _form(options.get("selection"))
        self._deleted_form = _form(options.get("deletions"))
        self._progress = progress
        self._files = 0
        self._kept = 0
        self._facts: PlanFacts | None = None

    @property
    def has_begun(self) -> bool:
        """True once :attr:`facts` have arrived."""
        return self._stream.schema is not None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches. Its metadata has the facts as JSON texts."""
        assert self._stream.schema is not None, "plans are returned once they have begun"  # noqa: S101
        return self._stream.schema

    @property
    def facts(self) -> PlanFacts:
        """Facts about the whole plan."""
        if self._facts is None:
            metadata = self.schema.metadata or {}
            missing = [name for name in _NEEDED if name.encode() not in metadata]
            if missing:
                raise IncompleteAnswerError(f"the stream lacks {missing[0]}; is it one of paimon-index?")
            texts = {name: metadata[name.encode()] for name in _FACTS if name.encode() in metadata}
            try:
                facts = {name: json.loads(text) for name, text in texts.items()}
            except (ValueError, RecursionError) as error:
                raise IncompleteAnswerError(f"the plan's metadata is not JSON: {error}") from error
            self._facts = decode(PlanFacts, facts)
        return self._facts

    def feed(self, piece: bytes) -> list[pa.RecordBatch]:
        """Add bytes, and return the batches that are complete now."""
        batches = []
        for batch in self._stream.feed(piece):
            self._files += batch.num_rows
            self._kept += batch.num_rows
            if "skipped" in batch.schema.names:
                # With explain the stream has skipped files, too.
                self._kept -= pc.sum(batch.column("skipped")).as_py() or 0
            batches.append(batch)
        if batches and self._progress is not None:
            self._progress(
                PlanProgress(self._files, self.facts.summary.files_kept, self._stream.received_bytes)
            )
        return batches

    def check_whole(self) -> None:
        """Raise :class:`IncompleteAnswerError` if files are missing."""
        self._stream.check_ended()
        if self._kept != self.facts.summary.files_kept:
            raise IncompleteAnswerError(
                f"the plan keeps {self.facts.summary.files_kept} files and {self._kept} arrived: ask again"
            )

    def files(self, batch: pa.RecordBatch) -> Iterator[PlannedFile]:
        """Yield the files of a batch, in its order."""
        partitions = _partitions(batch.column("partition"))
        for row, partition in zip(batch.drop_columns("partition").to_pylist(), partitions, strict=True):
            members = {name: value for name, value in row.items() if name in _MEMBERS}
            members["partition"] = partition
            members["deletion"] = row["deletion"] and DeletionFile(**row["deletion"])
            members["selection"] = _rows(self._form, row["selection"], row["selection_format"])
            if "deleted_rows" in row:
                members["deleted_rows"] = _rows(
                    self._deleted_form, row["deleted_rows"], row["deleted_format"]
                )
            if row.get("explain") is not None:
                members["explain"] = tuple(decode(ExplainStep, step) for step in row["explain"])
            yield PlannedFile(**members)


def _partitions(column: pa.Array) -> list[dict[str, Any]]:
    """Return partitions as Python values. Dates and times beyond Python's range are ``numpy.datetime64``."""
    try:
        return [partition or {} for partition in column.to_pylist()]
    except (OverflowError, ValueError):
        return [
            {name: _value(column.field(name)[at]) for name in column.type.names} for at in range(len(column))
        ]


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        unit = "D" if pa.types.is_date(scalar.type) else scalar.type.unit
        return np.array(scalar.value, f"datetime64[{unit}]")[()]


class _Facts:
    def __init__(self, reader: PlanReader) -> None:
        self._reader = reader
        self._is_taken = False

    @property
    def facts(self) -> PlanFacts:
        return self._reader.facts

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches; ``docs/api.md`` of the service describes the columns."""
        return self._reader.schema

    def _take(self) -> None:
        if self._is_taken:
            raise RuntimeError("a plan can be read once: keep the result of to_arrow(), or plan again")
        self._is_taken = True

    def __repr__(self) -> str:
        summary = self.facts.summary
        kept = f"{summary.files_kept} of {summary.files_total} files"
        return f"<{type(self).__name__} of snapshot {self.facts.snapshot_id}: {kept}>"


class Plan(_Facts):
    """A plan that arrives while it is read: iterate over its files, or convert it to Arrow or pandas.

    An unread plan keeps its connection: read it to the end, use it in a ``with`` block, or close it.
    """

    def __init__(
        self,
        reader: PlanReader,
        first: list[pa.RecordBatch],
        pieces: Iterator[bytes],
        close: Callable[[], None],
    ) -> None:
        super().__init__(reader)
        self._first = first
        self._pieces = pieces
        self._close = close

    def __iter__(self) -> Iterator[PlannedFile]:
        for batch in self.batches():
            yield from self._reader.files(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches of up to 10,000 files.

        Raises IncompleteAnswerError if the stream ended early. Raises DeadlineError if a piece of it did not
        arrive in time. Raises RuntimeError if the plan was read already.
        """
        self._take()
        try:
            yield from self._first
            for piece in self._pieces:
                yield from self._reader.feed(piece)
            self._reader.check_whole()
        finally:
            self.close()

    def to_arrow(self) -> pa.Table:
        """Return all files as a table. Raises what :meth:`batches` does."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return all files as a data frame. Needs pandas."""
        return self.to_arrow().to_pandas()

    def close(self) -> None:
        """Release the connection. Unread files are lost."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncPlan(_Facts):
    """:class:`Plan` for ``async for`` and ``await``."""

    def __init__(
        self,
        reader: PlanReader,
        first: list[pa.RecordBatch],
        pieces: AsyncIterator[bytes],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(reader)
        self._first = first
        self._pieces = pieces
        self._close = close

    async def __aiter__(self) -> AsyncIterator[PlannedFile]:
        async for batch in self.batches():
            for file in self._reader.files(batch):
                yield file

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield record batches. See :meth:`Plan.batches`."""
        self._take()
        try:
            for batch in self._first:
                yield batch
            async for piece in self._pieces:
                for batch in self._reader.feed(piece):
                    yield batch
            self._reader.check_whole()
        finally:
            await self.close()

    async def to_arrow(self) -> pa.Table:
        """Return all files as a table. See :meth:`Plan.to_arrow`."""
        return pa.Table.from_batches([batch async for batch in self.batches()], self.schema)

    async def to_pandas(self) -> pd.DataFrame:
        """Return all files as a data frame. Needs pandas."""
        return (await self.to_arrow()).to_pandas()

    async def close(self) -> None:
        """Release the connection. Unread files are lost."""
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _form(encoding: str | None) -> Form:
    return "ranges" if encoding == "ranges" else "positions" if encoding == "positions" else "bitmap"


def _rows(form: Form, content: bytes | None, roaring: str | None) -> Selection | None:
    return None if content is None else Selection(form, content, 64 if roaring == "roaring64" else 32)
