"""Which indexes of a table cost more than they give, and which are missing: from manifests and index heads.

No data is read; see :mod:`app.advice.survey` for what is.

========================  ====================================================================================
subject                   advised where
========================  ====================================================================================
bloom-filter-items        bloom filters have room for far more values than the largest file has rows
small-files               they have room for the largest file, but most files are far smaller
bitmap-of-many-values     more than half of the rows of a file have a value of their own
range-bitmap-for-bsi      a BSI is on a type that a range bitmap takes, which answers the same and more
index-missing             files lack an index that the table's options name
large-index               an index takes more than a third of its data
embed-indexes             index files are small: embedded in manifests no plan and no task reads them
separate-indexes          embedded indexes are large: every first plan of a process reads all of them
index-without-effect      plans asked an index many times, and none of them left out a file by its kind
column-without-index      plans test a column that has no index
========================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import numpy as np
from pydantic import Field

from app.advice.survey import NOTHING, Advance, Found, Survey
from app.described import DESCRIBED
from app.file_index.bitmap.kind import BITMAP
from app.file_index.bloom_filter.bloom_filter import DEFAULT_FPP, payload_bytes
from app.file_index.bloom_filter.kind import BLOOM_FILTER, rounded_items
from app.file_index.bsi.kind import BSI
from app.file_index.index_kinds import KINDS
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.options.file_indexes import DEFAULT_THRESHOLD_BYTES, in_manifest_threshold
from app.planning.usage import CALLS_OF_A_FILE, TableUsage
from app.planning.version.version import Version

MOST_FILES: Final = 1_000
"""Data files whose index heads are read, unless a caller wants others."""

Indexes: TypeAlias = AbstractSet[tuple[str, str]]
"""Indexes by column and kind."""

_LARGE_SHARE: Final = 1 / 3
_ROOMY: Final = 2
"""Times the size that bloom filters need: smaller excesses are not worth writing indexes anew."""
_EMBEDDABLE_BYTES: Final = 8 << 10
_LARGE_EMBEDDED_BYTES: Final = 64 << 20
_LARGE_FILE_INDEX_BYTES: Final = 4 << 10
_ENOUGH_PLANS: Final = 20
"""Before what plans did not do says something."""
_OFTEN: Final = 0.2
_TERABYTE: Final = 1e12
_THOUSAND: Final = 1e3


class AdviceSubject(StrEnum):
    """What a piece of advice is about, see :mod:`app.advice.table_advice`."""

    BLOOM_FILTER_ITEMS = "bloom-filter-items"
    SMALL_FILES = "small-files"
    BITMAP_OF_MANY_VALUES = "bitmap-of-many-values"
    RANGE_BITMAP_FOR_BSI = "range-bitmap-for-bsi"
    INDEX_MISSING = "index-missing"
    LARGE_INDEX = "large-index"
    EMBED_INDEXES = "embed-indexes"
    SEPARATE_INDEXES = "separate-indexes"
    INDEX_WITHOUT_EFFECT = "index-without-effect"
    COLUMN_WITHOUT_INDEX = "column-without-index"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do."""

    subject: AdviceSubject
    column: str | None
    """With the key in brackets for one key of a map column; null: the table."""
    index: Annotated[str | None, Field(examples=["bloom-filter"])]
    detail: str
    """What was found, and what to do."""
    files: int
    """Data files that it is about."""
    bytes_saved: int | None
    """Of indexes, once all files are written anew; negative: what it costs; null: unknown."""
    options: Mapping[str, str | None]
    """Table options to set; null: to remove."""
    command: str | None
    """That does it, for files that are there already; writers follow the options."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The indexes of one kind on one column."""

    column: str
    index: Annotated[str, Field(examples=["bitmap"])]
    declared: bool
    """The table's options name it, so that writers make it."""
    files: int
    """Data files that have it."""
    files_without: int
    """Data files that lack it, though their schema has the column."""
    bytes: int
    largest_bytes: int
    plans_asked: int
    """Plans with a test on the column, since the service started."""
    plans_useful: int
    """Those of them in which an index of this kind left out a file."""


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """A filter that was asked, with `?` in place of every literal."""

    filter: Annotated[str, Field(examples=["`city` = ? AND `amount` > ?"])]
    plans: int


@dataclass(frozen=True, slots=True)
class Savings:
    """What file indexes have spared the readers of a table since the service started."""

    plans: int
    files: int
    """Data files that indexes alone left out."""
    bytes: int
    """Of these files."""
    calls: int
    """At least two for each file: for its footer, and for its columns."""
    money: float | None
    """By the prices in the settings; null: there are none."""


@dataclass(frozen=True, slots=True)
class TableAdvice:
    """What the file indexes of a table cost and give, and what to do about it."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: int | None
    files: int
    files_examined: int
    """Data files whose index heads were read; if there are more, numbers of indexes are estimates."""
    data_bytes: int
    index_bytes: int
    files_without_index: int
    """Data files that have no file index at all."""
    indexes: Sequence[IndexUse]
    advice: Sequence[Advice]
    """What saves most comes first."""
    options: Mapping[str, str | None]
    """Those of all pieces of advice together."""
    savings: Savings
    shapes: Sequence[ShapeUse]
    """The filters that were asked most; empty if the service does not count them."""
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Prices:
    """What reading costs, in any currency.

    Attributes:
        terabyte: read.
        thousand_calls: to the store.
    """

    terabyte: float | None = None
    thousand_calls: float | None = None

    def of(self, bytes_read: int, calls: int) -> float | None:
        """What it costs to read so much; None without prices."""
        if self.terabyte is None and self.thousand_calls is None:
            return None
        terabytes, thousands = bytes_read / _TERABYTE, calls / _THOUSAND
        return terabytes * (self.terabyte or 0) + thousands * (self.thousand_calls or 0)


def advise_table(
    version: Version,
    usage: TableUsage,
    prices: Prices | None = None,
    most_files: int = MOST_FILES,
    advance: Advance = lambda _: None,
) -> TableAdvice:
    """Looks at the indexes of a version.

    Args:
        version: of the table.
        usage: what its plans came to.
        prices: of reading.
        most_files: data files whose index heads are read.
        advance: told of these.

    Raises:
        SnapshotExpiredError: the version went away.
        CorruptMetadataError: one of its manifests is damaged.
        DeadlineExceededError: the request's time ran out.
    """
    survey = Survey.of(version, most_files, advance)
    adviser = _Adviser(survey, usage)
    advice = sorted(adviser.advice(), key=lambda each: -(each.bytes_saved or 0))
    columns = survey.files.columns
    savings_calls = CALLS_OF_A_FILE * usage.files
    return TableAdvice(
        snapshot_id=version.snapshot_id,
        files=len(survey.files),
        files_examined=len(survey.sample),
        data_bytes=int(columns.file_sizes.sum()),
        index_bytes=survey.scaled(sum(int(each.lengths.sum()) for each in survey.found.values())),
        files_without_index=survey.without_index,
        indexes=[_use(survey, usage, *key) for key in survey.keys],
        advice=advice,
        options=adviser.options(),
        savings=Savings(
            usage.plans,
            usage.files,
            usage.bytes,
            savings_calls,
            None if prices is None else prices.of(usage.bytes, savings_calls),
        ),
        shapes=[ShapeUse(shape, usage.shapes[shape]) for shape in usage.most_asked_shapes()],
        warnings=survey.warnings,
    )


def _use(survey: Survey, usage: TableUsage, column: str, kind: str) -> IndexUse:
    found = survey.found.get((column, kind), NOTHING)
    return IndexUse(
        column,
        kind,
        declared=(column, kind) in survey.declared,
        files=survey.scaled(len(found.at)),
        files_without=survey.scaled(int(survey.has_column(column).sum()) - len(found.at)),
        bytes=survey.scaled(int(found.lengths.sum())),
        largest_bytes=int(found.lengths.max(initial=0)),
        plans_asked=usage.asked[column, kind],
        plans_useful=usage.useful[column, kind],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Adviser:
    """Looks for what there is to do.

    Attributes:
        survey: what is there.
        usage: what plans came to.
        dropped: indexes that some piece of advice takes off, by column and kind.
        added: indexes that some piece of advice puts on.
        parameters: options of single indexes that some piece of advice sets.
    """

    survey: Survey
    usage: TableUsage
    dropped: set[tuple[str, str]] = field(default_factory=set)
    added: set[tuple[str, str]] = field(default_factory=set)
    parameters: dict[str, str] = field(default_factory=dict)

    def advice(self) -> Iterator[Advice]:
        """Every piece of advice."""
        survey, usage = self.survey, self.usage
        for column, kind in survey.keys:
            yield from self._missing(column, kind)
            found = survey.found.get((column, kind), NOTHING)
            if not len(found.at):
                continue
            size = int(found.lengths.sum())
            if usage.asked[column, kind] >= _ENOUGH_PLANS and not usage.useful[column, kind]:
                yield self._of_index(
                    AdviceSubject.INDEX_WITHOUT_EFFECT,
                    (column, kind),
                    f"{usage.asked[column, kind]} plans tested {column!r}, and no {kind} left out a file: "
                    "take it off unless other queries need it",
                    saved=size,
                    drops=True,
                )
            if kind == BLOOM_FILTER:
                yield from self._bloom_filters(column, found)
            elif kind == BITMAP:
                yield from self._bitmaps(column, found)
            elif kind == BSI and RANGE_BITMAP.takes(survey.data_type(column)):
                yield self._of_index(
                    AdviceSubject.RANGE_BITMAP_FOR_BSI,
                    (column, kind),
                    f"a {RANGE_BITMAP} of {column!r} answers what the {BSI} does, and ORDER BY with LIMIT; "
                    "it is smaller where values repeat",
                    drops=True,
                    adds=RANGE_BITMAP,
                )
            data = int(survey.files.columns.file_sizes[survey.sample[found.at]].sum())
            if size > data * _LARGE_SHARE:
                yield self._of_index(
                    AdviceSubject.LARGE_INDEX,
                    (column, kind),
                    f"the {kind} of {column!r} takes {size / max(1, data):.0%} of the data that it is about: "
                    "take it off unless it spares more than it costs to read",
                    saved=size,
                    drops=True,
                )
        yield from self._places()
        yield from self._unindexed()

    def options(self) -> dict[str, str | None]:
        """The options of all pieces of advice that were given, taken together."""
        return self._changed(self.dropped, self.added) | self.parameters

    def _of_index(  # noqa: PLR0913 - a piece of advice has so many parts
        self,
        subject: AdviceSubject,
        index: tuple[str, str],
        detail: str,
        *,
        files: int | None = None,
        saved: float | None = None,
        drops: bool = False,
        adds: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Advice:
        """Advice about the indexes of one kind on one column.

        Args:
            subject: what it is about.
            index: column and kind.
            detail: what was found, and what to do.
            files: of those examined that it is about; all that have the index unless given.
            saved: bytes of these.
            drops: the index is taken off.
            adds: the kind of index that the column gets.
            parameters: options to set besides.
        """
        column, kind = index
        dropped = {index} if drops else set()
        added = {(column, adds)} - self.survey.declared.keys() if adds else set()
        self.dropped.update(dropped)
        self.added.update(added)
        self.parameters.update(parameters or {})
        if files is None:
            files = len(self.survey.found.get(index, NOTHING).at)
        return Advice(
            subject,
            column,
            kind,
            detail,
            self.survey.scaled(files),
            None if saved is None else self.survey.scaled(saved),
            self._changed(dropped, added) | dict(parameters or {}),
            _rebuild(self.survey.version),
        )

    def _changed(self, dropped: Indexes, added: Indexes) -> dict[str, str | None]:
        """The options that differ where some indexes are taken off, and others put on."""
        declared, values = self.survey.declared, self.survey.version.schema.options.values
        changed: dict[str, str | None] = {}
        for kind in sorted({kind for _, kind in (dropped & declared.keys()) | added}):
            stay = [column for column, each in declared if each == kind and (column, each) not in dropped]
            new = sorted(column for column, each in added if each == kind)
            changed[f"file-index.{kind}.columns"] = ",".join([*stay, *new]) or None
        for column, kind in sorted(dropped & declared.keys()):
            changed |= {name: None for name in values if name.startswith(f"file-index.{kind}.{column}.")}
        return changed

    def _missing(self, column: str, kind: str) -> Iterator[Advice]:
        survey, found = self.survey, self.survey.found.get((column, kind), NOTHING)
        if (column, kind) not in survey.declared or kind not in KINDS:
            return
        lacking = np.flatnonzero(survey.has_column(column))
        lacking = lacking[~np.isin(lacking, found.at)]
        if not len(lacking):
            return
        rows = survey.files.columns.row_counts[survey.sample]
        built_rows = int(rows[found.at].sum())
        cost = int(found.lengths.sum()) / built_rows * int(rows[lacking].sum()) if built_rows else None
        yield self._of_index(
            AdviceSubject.INDEX_MISSING,
            (column, kind),
            f"the table's options name a {kind} of {column!r}, and {survey.scaled(len(lacking))} files lack "
            "it: they were written before the option was set, or by a writer that makes no indexes",
            files=len(lacking),
            saved=None if cost is None else -cost,
        )

    def _bloom_filters(self, column: str, found: Found) -> Iterator[Advice]:
        survey = self.survey
        declared = survey.declared.get((column, BLOOM_FILTER))
        fpp = float("0" if declared is None else declared.parameters.get("fpp", 0)) or DEFAULT_FPP
        columns = survey.files.columns
        rows, present = columns.row_counts[survey.sample[found.at]], int(found.lengths.sum())
        needed = sum(payload_bytes(max(1, count), fpp) for count in rows.tolist())
        if present <= _ROOMY * needed:
            return
        largest = int(columns.row_counts.max())
        items = rounded_items(largest)
        saved = present - len(found.at) * payload_bytes(items, fpp)
        if saved * _ROOMY >= present:
            yield self._of_index(
                AdviceSubject.BLOOM_FILTER_ITEMS,
                (column, BLOOM_FILTER),
                f"bloom filters of {column!r} take {int(np.median(found.lengths)):,} bytes a file, and no "
                f"file has more than {largest:,} rows: make room for {items:,} values",
                saved=saved,
                parameters={f"file-index.{BLOOM_FILTER}.{column}.items": str(items)},
            )
        else:
            yield self._of_index(
                AdviceSubject.SMALL_FILES,
                (column, BLOOM_FILTER),
                f"bloom filters of {column!r} have room for the largest file, but half of the files have at "
                f"most {int(np.median(rows)):,} rows: compact the table, so that fewer files have one each",
            )

    def _bitmaps(self, column: str, found: Found) -> Iterator[Advice]:
        survey, shares = self.survey, self.survey.cardinalities(column)
        if not shares or float(np.median(shares)) <= 1 / _ROOMY:
            return
        data_type, saved = survey.data_type(column), None
        kind = RANGE_BITMAP if RANGE_BITMAP.takes(data_type) else BLOOM_FILTER
        if not kind.takes(data_type):
            return
        parameters = {}
        if kind == BLOOM_FILTER and (column, kind) not in survey.declared:
            items = rounded_items(int(survey.files.columns.row_counts.max()))
            parameters[f"file-index.{kind}.{column}.items"] = str(items)
            saved = int(found.lengths.sum()) - len(found.at) * payload_bytes(items, DEFAULT_FPP)
        yield self._of_index(
            AdviceSubject.BITMAP_OF_MANY_VALUES,
            (column, BITMAP),
            f"bitmaps of {column!r} have a value for every {1 / float(np.median(shares)):.1f} rows: a {kind} "
            "suits many values",
            saved=saved,
            drops=True,
            adds=kind,
            parameters=parameters,
        )

    def _places(self) -> Iterator[Advice]:
        """Whether indexes lie in manifests or beside the data."""
        survey = self.survey
        sizes, embedded = survey.index_sizes, survey.embedded
        beside, within = sizes[(sizes >= 0) & ~embedded], sizes[(sizes >= 0) & embedded]
        threshold = in_manifest_threshold(survey.version.schema.options.values)
        usual = int(np.quantile(beside, 0.9)) if len(beside) else 0
        if threshold < usual <= _EMBEDDABLE_BYTES:
            files = survey.scaled(len(beside))
            yield self._of_table(
                AdviceSubject.EMBED_INDEXES,
                f"{files} index files are small, nine of ten have at most {usual:,} bytes: embedded in "
                f"manifests they cost no call of their own, {files} fewer for a first plan, and manifests "
                f"grow by {survey.scaled(int(beside.sum())):,} bytes",
                len(beside),
                1 << usual.bit_length(),
            )
        size = survey.scaled(int(within.sum()))
        if size > _LARGE_EMBEDDED_BYTES and float(within.mean()) > _LARGE_FILE_INDEX_BYTES:
            yield self._of_table(
                AdviceSubject.SEPARATE_INDEXES,
                f"manifests hold {size:,} bytes of indexes, {int(within.mean()):,} for each file: every "
                "first plan reads them all, whatever it asks; of index files only those that are asked",
                len(within),
                DEFAULT_THRESHOLD_BYTES,
            )

    def _of_table(self, subject: AdviceSubject, detail: str, files: int, threshold: int) -> Advice:
        options = {"file-index.in-manifest-threshold": f"{threshold} b"}
        self.parameters.update(options)
        command = _rebuild(self.survey.version)
        return Advice(subject, None, None, detail, self.survey.scaled(files), None, options, command)

    def _unindexed(self) -> Iterator[Advice]:
        survey, usage = self.survey, self.usage
        indexed = {column for column, _ in survey.keys} | set(survey.version.schema.partition_keys)
        for column, plans in sorted(usage.columns.items(), key=lambda each: -each[1]):
            often = plans >= _ENOUGH_PLANS and plans >= usage.plans * _OFTEN
            if often and column not in indexed and column in survey.version.schema.by_name:
                yield Advice(
                    AdviceSubject.COLUMN_WITHOUT_INDEX,
                    column,
                    None,
                    f"{plans} of {usage.plans} plans test {column!r}, which has no index: ask what-if "
                    "whether one would leave out files",
                    len(survey.files),
                    None,
                    {},
                    None,
                )


def _rebuild(version: Version) -> str:
    table = version.table
    if not table.is_at_its_name:
        return f"CALL sys.rewrite_file_index(table => '{table.database}.{table.name}')"
    return f"paimon-index job build-index {table.database}.{table.name}"
