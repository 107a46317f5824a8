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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

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
from app.options.file_indexes import in_manifest_threshold
from app.planning.usage import CALLS_OF_A_FILE, TableUsage
from app.planning.version.version import Version

MOST_FILES: Final = 1_000
"""Data files whose index heads are read, unless a caller wants others."""

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
        advice=sorted(_advice(survey, usage), key=lambda each: -(each.bytes_saved or 0)),
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


def _advice(survey: Survey, usage: TableUsage) -> Iterator[Advice]:
    for column, kind in survey.keys:
        found = survey.found.get((column, kind), NOTHING)
        advise = partial(_of_index, survey, column, kind)
        yield from _missing(survey, found, column, kind, advise)
        if not len(found.at):
            continue
        if usage.asked[column, kind] >= _ENOUGH_PLANS and not usage.useful[column, kind]:
            yield advise(
                AdviceSubject.INDEX_WITHOUT_EFFECT,
                f"{usage.asked[column, kind]} plans tested {column!r}, and no {kind} left out a file: take "
                "it off unless other queries need it",
                found=found,
                bytes_saved=survey.scaled(int(found.lengths.sum())),
                options=_without(survey, column, kind),
            )
        match kind:
            case str(each) if each == BLOOM_FILTER:
                yield from _bloom_filters(survey, found, column, advise)
            case str(each) if each == BITMAP:
                yield from _bitmaps(survey, found, column, advise)
            case str(each) if each == BSI and RANGE_BITMAP.takes(survey.data_type(column)):
                yield advise(
                    AdviceSubject.RANGE_BITMAP_FOR_BSI,
                    f"a {RANGE_BITMAP} of {column!r} answers what the {BSI} does, and ORDER BY with LIMIT; "
                    "it is smaller where values repeat",
                    found=found,
                    options=_without(survey, column, kind) | _with(survey, column, RANGE_BITMAP),
                )
            case _:
                pass
        yield from _large(survey, found, column, kind, advise)
    yield from _places(survey)
    yield from _unindexed(survey, usage)


def _of_index(  # noqa: PLR0913 - a piece of advice has so many parts
    survey: Survey,
    column: str,
    kind: str,
    subject: AdviceSubject,
    detail: str,
    *,
    found: Found,
    bytes_saved: int | None = None,
    options: Mapping[str, str | None] | None = None,
) -> Advice:
    """Advice about the indexes of one kind on one column."""
    files = survey.scaled(len(found.at))
    return Advice(subject, column, kind, detail, files, bytes_saved, options or {}, _rebuild(survey.version))


def _rebuild(version: Version) -> str:
    return f"paimon-index job build-index {version.table.database}.{version.table.name}"


def _missing(
    survey: Survey, found: Found, column: str, kind: str, advise: Callable[..., Advice]
) -> Iterator[Advice]:
    if (column, kind) not in survey.declared or kind not in KINDS:
        return
    lacking = np.flatnonzero(survey.has_column(column))
    lacking = lacking[~np.isin(lacking, found.at)]
    if not len(lacking):
        return
    rows = survey.files.columns.row_counts[survey.sample]
    built_rows = int(rows[found.at].sum())
    cost = int(found.lengths.sum()) / built_rows * int(rows[lacking].sum()) if built_rows else None
    yield advise(
        AdviceSubject.INDEX_MISSING,
        f"the table's options name a {kind} of {column!r}, and {survey.scaled(len(lacking))} files lack it: "
        "they were written before the option was set, or by a writer that makes no indexes",
        found=Found(lacking, lacking),
        bytes_saved=None if cost is None else -survey.scaled(cost),
    )


def _bloom_filters(
    survey: Survey, found: Found, column: str, advise: Callable[..., Advice]
) -> Iterator[Advice]:
    declared = survey.declared.get((column, BLOOM_FILTER))
    written = {} if declared is None else dict(declared.parameters)
    fpp = float(written.get("fpp", DEFAULT_FPP))
    columns = survey.files.columns
    rows, present = columns.row_counts[survey.sample[found.at]], int(found.lengths.sum())
    needed = sum(payload_bytes(max(1, count), fpp) for count in rows.tolist())
    if present <= _ROOMY * needed:
        return
    items = rounded_items(int(columns.row_counts.max()))
    saved = present - len(found.at) * payload_bytes(items, fpp)
    typical = int(np.median(found.lengths))
    if saved * _ROOMY >= present:
        yield advise(
            AdviceSubject.BLOOM_FILTER_ITEMS,
            f"bloom filters of {column!r} take {typical:,} bytes a file, and no file has more than "
            f"{int(columns.row_counts.max()):,} rows: make room for {items:,} values",
            found=found,
            bytes_saved=survey.scaled(saved),
            options={f"file-index.{BLOOM_FILTER}.{column}.items": str(items)},
        )
    else:
        yield advise(
            AdviceSubject.SMALL_FILES,
            f"bloom filters of {column!r} have room for the largest file, but half of the files have at most "
            f"{int(np.median(rows)):,} rows: compact the table, so that fewer files have one each",
            found=found,
        )


def _bitmaps(survey: Survey, found: Found, column: str, advise: Callable[..., Advice]) -> Iterator[Advice]:
    shares = survey.cardinalities(column)
    if not shares or float(np.median(shares)) <= 1 / _ROOMY:
        return
    data_type, bytes_saved = survey.data_type(column), None
    kind = RANGE_BITMAP if RANGE_BITMAP.takes(data_type) else BLOOM_FILTER
    if not kind.takes(data_type):
        return
    options = _without(survey, column, BITMAP) | _with(survey, column, kind)
    if kind == BLOOM_FILTER:
        items = rounded_items(int(survey.files.columns.row_counts.max()))
        options[f"file-index.{kind}.{column}.items"] = str(items)
        bloom_bytes = len(found.at) * payload_bytes(items, DEFAULT_FPP)
        bytes_saved = survey.scaled(int(found.lengths.sum()) - bloom_bytes)
    yield advise(
        AdviceSubject.BITMAP_OF_MANY_VALUES,
        f"bitmaps of {column!r} have a value for every {1 / float(np.median(shares)):.1f} rows: a {kind} "
        "suits many values",
        found=found,
        bytes_saved=bytes_saved,
        options=options,
    )


def _large(
    survey: Survey, found: Found, column: str, kind: str, advise: Callable[..., Advice]
) -> Iterator[Advice]:
    data, size = int(survey.files.columns.file_sizes[survey.sample[found.at]].sum()), int(found.lengths.sum())
    if size > data * _LARGE_SHARE:
        yield advise(
            AdviceSubject.LARGE_INDEX,
            f"the {kind} of {column!r} takes {size / max(1, data):.0%} of the data that it is about: take it "
            "off unless it spares more than it costs to read",
            found=found,
            bytes_saved=survey.scaled(size),
            options=_without(survey, column, kind),
        )


def _places(survey: Survey) -> Iterator[Advice]:
    """Whether indexes lie in manifests or beside the data."""
    sizes, embedded = survey.index_sizes, survey.embedded
    beside = sizes[(sizes >= 0) & ~embedded]
    within = sizes[(sizes >= 0) & embedded]
    threshold = in_manifest_threshold(survey.version.schema.options.values)
    option = "file-index.in-manifest-threshold"
    usual = int(np.quantile(beside, 0.9)) if len(beside) else 0
    if len(beside) and threshold < usual <= _EMBEDDABLE_BYTES:
        room = 1 << usual.bit_length()
        files = survey.scaled(len(beside))
        yield Advice(
            AdviceSubject.EMBED_INDEXES,
            None,
            None,
            f"{files} index files are small, nine of ten have at most {usual:,} bytes: embedded in manifests "
            f"they cost no call of their own, {files} fewer for a first plan, and manifests grow by "
            f"{survey.scaled(int(beside.sum())):,} bytes",
            files,
            None,
            {option: f"{room} b"},
            _rebuild(survey.version),
        )
    size = survey.scaled(int(within.sum()))
    if size > _LARGE_EMBEDDED_BYTES and float(within.mean()) > _LARGE_FILE_INDEX_BYTES:
        yield Advice(
            AdviceSubject.SEPARATE_INDEXES,
            None,
            None,
            f"manifests hold {size:,} bytes of indexes, {int(within.mean()):,} for each file: every first "
            "plan reads them all, whatever it asks; in files of their own only those that are asked are read",
            survey.scaled(len(within)),
            None,
            {option: "500 b"},
            _rebuild(survey.version),
        )


def _unindexed(survey: Survey, usage: TableUsage) -> Iterator[Advice]:
    indexed = {column for column, _ in survey.keys} | set(survey.version.schema.partition_keys)
    for column, plans in sorted(usage.columns.items(), key=lambda each: -each[1]):
        often = plans >= _ENOUGH_PLANS and plans >= usage.plans * _OFTEN
        if often and column not in indexed and column in survey.version.schema.by_name:
            yield Advice(
                AdviceSubject.COLUMN_WITHOUT_INDEX,
                column,
                None,
                f"{plans} of {usage.plans} plans test {column!r}, which has no index: ask what-if whether "
                "one would leave out files",
                len(survey.files),
                None,
                {},
                None,
            )


def _without(survey: Survey, column: str, kind: str) -> dict[str, str | None]:
    """The options without an index; none if they do not name it."""
    if (column, kind) not in survey.declared:
        return {}
    option, rest = f"file-index.{kind}.columns", _columns_of(survey, kind, without=column)
    of_index = f"file-index.{kind}.{column}."
    own = [name for name in survey.version.schema.options.values if name.startswith(of_index)]
    return {option: ",".join(rest) or None, **dict.fromkeys(own)}


def _with(survey: Survey, column: str, kind: str) -> dict[str, str | None]:
    """The options with an index besides."""
    return {f"file-index.{kind}.columns": ",".join([*_columns_of(survey, kind, without=column), column])}


def _columns_of(survey: Survey, kind: str, *, without: str) -> list[str]:
    return [column for column, of_kind in survey.declared if of_kind == kind and column != without]
