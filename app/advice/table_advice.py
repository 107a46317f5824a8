"""Advises on indexes of a table, from manifests and index heads (:mod:`app.advice.survey`). Reads no data.

========================  ====================================================================================
subject                   advised where
========================  ====================================================================================
bloom-filter-items        bloom filters have room for far more values than the largest file has rows
small-files               bloom filters suit the largest file, but most files are far smaller
bitmap-of-many-values     more than half of the rows of a file have a value of their own
range-bitmap-for-bsi      a BSI is on a type that a range bitmap takes, which answers all that and more
index-missing             files lack an index that the table's options name
large-index               an index takes more than a third of its data, and helped no plan; it stays
embed-indexes             index files are small: embedded in manifests no plan and no task reads them
separate-indexes          embedded indexes are large: every first plan of a process reads all of them
index-without-effect      plans used an index many times, and it never ruled out a file
column-without-index      plans that test a column without an index skipped no file by its values
========================  ====================================================================================
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

import numpy as np

from app.advice.answers import (
    Advice,
    AdviceSubject,
    IndexUse,
    Prices,
    Savings,
    ShapeUse,
    TableAdvice,
)
from app.advice.survey import NO_INDEX, SampledIndexes, Survey
from app.building import Advance
from app.errors import RequestError
from app.file_index import KINDS
from app.file_index.bitmap import BITMAP
from app.file_index.bloom_filter import (
    BLOOM_FILTER,
    DEFAULT_FPP,
    BloomFilterOptions,
    payload_bytes,
    rounded_items,
)
from app.file_index.bsi import BSI
from app.file_index.range_bitmap import RANGE_BITMAP
from app.options.file_indexes import DEFAULT_THRESHOLD_BYTES, THRESHOLD, in_manifest_threshold
from app.planning import CALLS_OF_A_FILE, TableUsage, Version

MOST_FILES: Final = 1_000
"""Default number of data files whose index heads are read."""

_LARGE_SHARE: Final = 1 / 3
# Bloom filters up to this many times the needed size are not worth rewriting.
_ROOMY: Final = 2
_EMBEDDABLE_BYTES: Final = 8 << 10
_LARGE_EMBEDDED_BYTES: Final = 64 << 20
_LARGE_FILE_INDEX_BYTES: Final = 4 << 10
# Plans before an index without effect is reported.
_ENOUGH_PLANS: Final = 20
_OFTEN: Final = 0.2
_SMALL_TABLE_BYTES: Final = 1 << 20


def advise_table(
    version: Version,
    usage: TableUsage,
    prices: Prices | None = None,
    most_files: int = MOST_FILES,
    advance: Advance = lambda _: None,
) -> TableAdvice:
    """Advise on the indexes of a version."""
    survey = Survey.of(version, most_files, advance)
    adviser = _Adviser(survey, usage)
    advice = sorted(adviser.advice(), key=lambda entry: -(entry.bytes_saved or 0))
    columns = survey.files.columns
    data_bytes, options = int(columns.file_sizes.sum()), adviser.options()
    is_small = data_bytes < _SMALL_TABLE_BYTES
    is_rewritten = options or any(entry.subject is AdviceSubject.INDEX_MISSING for entry in advice)
    warnings = list(survey.warnings)
    if advice and is_small:
        warnings.append(
            f"the table has {data_bytes:,} bytes of data: too little for any index to matter, advice is for "
            "when it has grown"
        )
    index_bytes = survey.scaled(sum(int(sample.lengths.sum()) for sample in survey.sampled.values()))
    if index_bytes > data_bytes and not is_small:
        warnings.append(
            f"indexes take {index_bytes:,} bytes beside {data_bytes:,} bytes of data: plans may read more "
            "than they spare; take off those that helped no plan, and give bloom filters fewer items"
        )
    if columns_of_all := _globally_indexed(version):
        warnings.append(f"{', '.join(columns_of_all)}: global indexes, which are not weighed here")
    savings_calls = CALLS_OF_A_FILE * usage.files
    return TableAdvice(
        snapshot_id=version.snapshot_id,
        files=len(survey.files),
        files_examined=len(survey.sample),
        data_bytes=data_bytes,
        index_bytes=index_bytes,
        files_without_index=survey.without_index,
        indexes=[_use(survey, usage, *key) for key in survey.keys],
        advice=advice,
        options=options,
        statements=[] if is_small else statements(version, options),
        command=adviser.command(advice) if is_rewritten and not is_small else None,
        savings=Savings(
            usage.plans,
            usage.files,
            usage.bytes,
            savings_calls,
            None if prices is None else prices.of(usage.bytes, savings_calls),
        ),
        shapes=[ShapeUse(shape, usage.shapes[shape]) for shape in usage.most_asked_shapes()],
        warnings=warnings,
    )


def _globally_indexed(version: Version) -> list[str]:
    """Return columns of global indexes that plans use."""
    by_id = version.schema.by_id
    return sorted(by_id[number].name for number in version.contents().global_indexes if number in by_id)


def _use(survey: Survey, usage: TableUsage, column: str, kind: str) -> IndexUse:
    sampled = survey.sampled.get((column, kind), NO_INDEX)
    return IndexUse(
        column,
        kind,
        declared=(column, kind) in survey.declared,
        files=survey.scaled(len(sampled.at)),
        files_without=survey.scaled(int(survey.has_column(column).sum()) - len(sampled.at)),
        bytes=survey.scaled(int(sampled.lengths.sum())),
        largest_bytes=int(sampled.lengths.max(initial=0)),
        plans_asked=usage.asked[column, kind],
        plans_useful=usage.useful[column, kind],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Adviser:
    survey: Survey
    usage: TableUsage
    dropped: set[tuple[str, str]] = field(default_factory=set)
    added: set[tuple[str, str]] = field(default_factory=set)
    relied_on: set[tuple[str, str]] = field(default_factory=set)
    parameters: dict[str, str] = field(default_factory=dict)

    def advice(self) -> Iterator[Advice]:
        """Yield all advice: for each index, the first piece that applies."""
        for key in self.survey.keys:
            sampled = self.survey.sampled.get(key, NO_INDEX)
            reasons: list[Iterator[Advice]] = [self._missing(*key)]
            if len(sampled.at):
                of_present = (self._without_effect, self._of_kind, self._large)
                reasons = [*(reason(key, sampled) for reason in of_present), *reasons]
            # Only the first: a later one might drop what the first adds.
            yield from islice(chain.from_iterable(reasons), 1)
        yield from self._places()
        yield from self._unindexed()

    def _without_effect(self, index: tuple[str, str], sampled: SampledIndexes) -> Iterator[Advice]:
        (column, kind), plans = index, self.usage.asked[index]
        if plans >= _ENOUGH_PLANS and not self.usage.useful[index]:
            yield self._of_index(
                AdviceSubject.INDEX_WITHOUT_EFFECT,
                index,
                f"{plans} of the last {self.usage.plans} plans tested {column!r}, and no {kind} left out a "
                f"file: take it off unless other queries need it{self._list_hint(column, kind)}",
                saved=int(sampled.lengths.sum()),
                drops=True,
            )

    def _list_hint(self, column: str, kind: str) -> str:
        """Return advice on bloom filters for lists of values, empty if no plan had any."""
        has_lists = any(f"`{column}` IN " in shape for shape in self.usage.shapes)
        if kind != BLOOM_FILTER or not has_lists:
            return ""
        return "; for IN lists and the keys of joins, set its fpp to 0.1 divided by the number of values"

    def _of_kind(self, index: tuple[str, str], sampled: SampledIndexes) -> Iterator[Advice]:
        column, kind = index
        if kind == BLOOM_FILTER:
            yield from self._bloom_filters(column, sampled)
        elif kind == BITMAP:
            yield from self._bitmaps(column, sampled)
        elif kind == BSI and RANGE_BITMAP.takes(self.survey.data_type(column)):
            yield self._of_index(
                AdviceSubject.RANGE_BITMAP_FOR_BSI,
                index,
                f"a {RANGE_BITMAP} of {column!r} answers what the {BSI} does, and ORDER BY with LIMIT; it is "
                "smaller where values repeat",
                drops=True,
                adds=RANGE_BITMAP,
            )

    def _large(self, index: tuple[str, str], sampled: SampledIndexes) -> Iterator[Advice]:
        (column, kind), size, plans = index, int(sampled.lengths.sum()), self.usage.asked[index]
        data = int(self.survey.files.columns.file_sizes[self.survey.sample[sampled.at]].sum())
        if size > data * _LARGE_SHARE and index not in self.relied_on and not self.usage.useful[index]:
            yield self._of_index(
                AdviceSubject.LARGE_INDEX,
                index,
                f"the {kind} of {column!r} takes {size / max(1, data):.0%} of its data files"
                f"{f', and helped none of {plans} plans' if plans else ''}: take it off unless it spares "
                "more than it costs to read",
                saved=size,
            )

    def options(self) -> dict[str, str | None]:
        declared, values = self.survey.declared, self.survey.version.schema.options.values
        changed: dict[str, str | None] = {}
        for kind in sorted({kind for _, kind in (self.dropped & declared.keys()) | self.added}):
            stay = [
                column
                for column, index_kind in declared
                if index_kind == kind and (column, index_kind) not in self.dropped
            ]
            new = sorted(column for column, index_kind in self.added if index_kind == kind)
            changed[f"file-index.{kind}.columns"] = ",".join([*stay, *new]) or None
        for column, kind in sorted(self.dropped & declared.keys()):
            changed |= {name: None for name in values if name.startswith(f"file-index.{kind}.{column}.")}
        return changed | self.parameters

    def command(self, advice: Sequence[Advice]) -> str:
        """Return the command that applies all advice to existing files. It removes only indexes it names."""
        survey, table, words = self.survey, self.survey.version.table, []
        name, url = f"{table.database}.{table.name}", survey.version.source.warehouse.public_url.rstrip("/")
        if not table.is_at_its_name:
            # Jobs find tables by name only, so the engine has to do it.
            return f"CALL sys.rewrite_file_index(table => {_text(name)})"
        roomy = {
            (each.column, each.index) for each in advice if each.subject is AdviceSubject.BLOOM_FILTER_ITEMS
        }
        if roomy & survey.declared.keys():
            # Without --rebuild, a job skips files that have the index, whatever its options.
            words.append("--rebuild")
        for column, kind in sorted(self.dropped & survey.declared.keys() & survey.sampled.keys()):
            words += ["--take-off", f"{column}={kind}"]
        return shlex.join(["paimon-index", "job", "build-index", name, "--warehouse", url, *words])

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
        column, kind = index
        if drops:
            self.dropped.add(index)
        if adds:
            self.relied_on.add((column, adds))
            if (column, adds) not in self.survey.declared:
                self.added.add((column, adds))
        self.parameters.update(parameters or {})
        if files is None:
            files = len(self.survey.sampled.get(index, NO_INDEX).at)
        return Advice(
            subject,
            column,
            kind,
            detail,
            self.survey.scaled(files),
            None if saved is None else self.survey.scaled(saved),
        )

    def _missing(self, column: str, kind: str) -> Iterator[Advice]:
        survey, sampled = self.survey, self.survey.sampled.get((column, kind), NO_INDEX)
        if (column, kind) not in survey.declared or kind not in KINDS:
            return
        lacking = np.flatnonzero(survey.has_column(column))
        lacking = lacking[~np.isin(lacking, sampled.at)]
        if not len(lacking):
            return
        rows, room, parameters = survey.files.columns.row_counts[survey.sample], "", {}
        built_rows = int(rows[sampled.at].sum())
        cost = int(sampled.lengths.sum()) / built_rows * int(rows[lacking].sum()) if built_rows else None
        if kind == BLOOM_FILTER:
            options, largest = self._bloom_options(column), int(survey.files.columns.row_counts.max())
            cost = len(lacking) * payload_bytes(options.items, options.fpp)
            fitting = len(lacking) * payload_bytes(rounded_items(largest), options.fpp)
            if cost > _ROOMY * fitting:
                room = f"; make room for {rounded_items(largest):,} values, not {options.items:,}"
                parameters = _items(column, largest)
                cost = fitting
        yield self._of_index(
            AdviceSubject.INDEX_MISSING,
            (column, kind),
            f"the table's options name a {kind} of {column!r}, and {survey.scaled(len(lacking))} files lack "
            f"it: they were written before the option was set, or by a writer that makes no indexes{room}",
            files=len(lacking),
            saved=None if cost is None else -cost,
            parameters=parameters,
        )

    def _bloom_filters(self, column: str, sampled: SampledIndexes) -> Iterator[Advice]:
        survey = self.survey
        fpp = self._bloom_options(column).fpp
        columns = survey.files.columns
        rows, present = columns.row_counts[survey.sample[sampled.at]], int(sampled.lengths.sum())
        needed = sum(payload_bytes(max(1, count), fpp) for count in rows.tolist())
        if present <= _ROOMY * needed:
            return
        largest = int(columns.row_counts.max())
        saved = present - len(sampled.at) * payload_bytes(rounded_items(largest), fpp)
        if saved * _ROOMY >= present:
            yield self._of_index(
                AdviceSubject.BLOOM_FILTER_ITEMS,
                (column, BLOOM_FILTER),
                f"bloom filters of {column!r} take {int(np.median(sampled.lengths)):,} bytes a file, and no "
                f"file has more than {largest:,} rows: make room for {rounded_items(largest):,} values",
                saved=saved,
                # The job would refuse an option without effect.
                parameters=_items(column, largest) if (column, BLOOM_FILTER) in survey.declared else None,
            )
        else:
            yield self._of_index(
                AdviceSubject.SMALL_FILES,
                (column, BLOOM_FILTER),
                f"bloom filters of {column!r} have room for the largest file, but half of the files have at "
                f"most {int(np.median(rows)):,} rows: compact the table, so that fewer files have one each",
            )

    def _bitmaps(self, column: str, sampled: SampledIndexes) -> Iterator[Advice]:
        survey, shares = self.survey, self.survey.cardinalities(column)
        if not shares or float(np.median(shares)) <= 1 / _ROOMY:
            return
        data_type, saved = survey.data_type(column), None
        kind = RANGE_BITMAP if RANGE_BITMAP.takes(data_type) else BLOOM_FILTER
        if not kind.takes(data_type):
            return
        parameters = {}
        if kind == BLOOM_FILTER and self.usage.useful[column, BITMAP]:
            return  # a bitmap answers more
        if kind == BLOOM_FILTER and (column, kind) not in survey.declared:
            largest = int(survey.files.columns.row_counts.max())
            parameters = _items(column, largest)
            size = payload_bytes(rounded_items(largest), DEFAULT_FPP)
            saved = int(sampled.lengths.sum()) - len(sampled.at) * size
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

    def _bloom_options(self, column: str) -> BloomFilterOptions:
        declared = self.survey.declared.get((column, BLOOM_FILTER))
        try:
            options: BloomFilterOptions = BLOOM_FILTER.parse_options(declared.parameters if declared else {})
        except RequestError:
            return BloomFilterOptions()
        return options

    def _places(self) -> Iterator[Advice]:
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
                "first plan reads them all, whatever it asks; of index files, only those that it needs",
                len(within),
                DEFAULT_THRESHOLD_BYTES,
            )

    def _of_table(self, subject: AdviceSubject, detail: str, files: int, threshold: int) -> Advice:
        self.parameters[THRESHOLD] = f"{threshold} b"
        return Advice(subject, None, None, detail, self.survey.scaled(files), None)

    def _unindexed(self) -> Iterator[Advice]:
        survey, usage = self.survey, self.usage
        indexed = {column for column, _ in survey.keys} | set(survey.version.schema.partition_keys)
        indexed |= set(_globally_indexed(survey.version))
        for column, plans in sorted(usage.columns.items(), key=lambda item: -item[1]):
            often = plans >= _ENOUGH_PLANS and plans >= usage.plans * _OFTEN
            if often and column not in indexed and column in survey.version.schema.by_name:
                yield Advice(
                    AdviceSubject.COLUMN_WITHOUT_INDEX,
                    column,
                    None,
                    f"{plans} of the last {usage.plans} plans test {column!r}, which has no index, and left "
                    "out no file by its values: ask what-if whether an index would",
                    len(survey.files),
                    None,
                )


def statements(version: Version, options: Mapping[str, str | None]) -> list[str]:
    """Return Spark SQL that sets options of the table, and removes those that are None."""
    table = ".".join(f"`{part.replace('`', '``')}`" for part in (version.table.database, version.table.name))
    values = ", ".join(
        f"{_text(name)} = {_text(value)}" for name, value in options.items() if value is not None
    )
    removed = ", ".join(_text(name) for name, value in options.items() if value is None)
    written = (("SET", values), ("UNSET", removed))
    return [f"ALTER TABLE {table} {verb} TBLPROPERTIES ({label})" for verb, label in written if label]


def _items(column: str, rows: int) -> dict[str, str]:
    """Return the option that sizes bloom filters for a file's rows. Columns with a dot have none."""
    name = f"file-index.{BLOOM_FILTER}.{column}.items"
    return {} if "." in column else {name: str(rounded_items(rows))}


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
