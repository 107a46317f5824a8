"""Random tables: rows in files, with everything that plans go by, and what a read of some files gives.

Rows are codes of the columns' values (:mod:`tests.proof.columns`), so that a condition is asked of all rows
of a table at once. A table is of one form:

* an append table: every row of every file stands for itself;
* one with a primary key: the rows of a key that several files of a bucket hold become one;
* one with data evolution: the columns of a row lie in several files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.bucket_index import BucketFunction
from app.types import DataField, TypeRoot, Value
from tests.bucket_index.plain_buckets import bucket_of
from tests.proof.columns import (
    FLOATING,
    KEY_TYPES,
    NULL,
    PARTITION_TYPES,
    READ_OTHERWISE,
    Column,
    random_column,
)

Codes = NDArray[np.int16]

_NAMES: Final = ("id", "Count", "a `b`", "name", "é", "x1", "when", "sum", "day", "UPPER")


@dataclass(eq=False)
class File:
    """A data file.

    Attributes:
        schema: the schema that it was written with.
        partition: codes of the partition columns.
        codes: of its rows, shape (rows, columns); 0 where a column is not in the file.
        deleted: positions that a deletion vector deletes.
        sequence: of its first row; later rows, and files with higher ones, are newer.
        removes: positions of rows that remove their key.
        first_row_id: of its first row, in a table with data evolution.
        holds: the columns in it, in such a table.
    """

    schema: int
    partition: tuple[int, ...]
    bucket: int
    total_buckets: int
    codes: Codes
    level: int = 0
    deleted: frozenset[int] = frozenset()
    sequence: int = 0
    removes: frozenset[int] = frozenset()
    first_row_id: int | None = None
    holds: tuple[int, ...] | None = None
    format: str = "parquet"

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def place(self) -> tuple[tuple[int, ...], int]:
        return self.partition, self.bucket


UNWATCHED: Final = {"global-index.column-update-action": "IGNORE"}
"""Has updates ignore global indexes."""


@dataclass(eq=False)
class RandomTable:
    """A table.

    Attributes:
        columns: in the order of the latest schema; behind them those that were dropped.
        schemas: how many there are.
        partitioned_by: places of partition columns in ``columns``.
        key: places of the primary key, without partition columns; empty for append tables.
        bucket_key: places of the columns that are hashed; empty without fixed buckets.
        options: of the table.
        files: all of them.
        manifests: numbers of files by manifest.
        joins_rows: whether files hold columns of the same rows.
        engine: whether the Java engine alone wrote it.
        damaged: whether some of its file indexes are not whole.
        former: options of all schemas but the latest, beside the table's.
    """

    columns: Sequence[Column]
    schemas: int
    partitioned_by: tuple[int, ...]
    key: tuple[int, ...]
    bucket_key: tuple[int, ...]
    options: dict[str, str]
    files: list[File] = field(default_factory=list)
    manifests: list[list[int]] = field(default_factory=list)
    joins_rows: bool = False
    engine: bool = True
    damaged: bool = False
    former: dict[str, str] = field(default_factory=dict)
    _reads: dict[frozenset[int], Codes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.starts = np.zeros(1, np.int64)

    def finish(self) -> None:
        """Put the rows of all files one behind the other."""
        self.starts = np.concatenate([[0], np.cumsum([len(each) for each in self.files])]).astype(np.int64)
        width = len(self.columns)
        self.codes = np.concatenate([np.zeros((0, width), np.int16), *(each.codes for each in self.files)])
        self.live = np.ones(len(self.codes), np.bool_)
        for start, each in zip(self.starts.tolist(), self.files, strict=False):
            self.live[[start + at for at in each.deleted]] = False
            if self.hides(each):
                self.live[start : start + len(each)] = False
        self.groups: dict[object, list[int]] = defaultdict(list)
        for number, each in enumerate(self.files):
            self.groups[self._group_of(each)].append(number)

    @property
    def present(self) -> Sequence[Column]:
        return [column for column in self.columns if column.fields[-1] is not None]

    @property
    def distrusts_global_indexes(self) -> bool:
        """Whether global indexes may be wrong, since options forbid them or had updates ignore them."""
        return not {"global-index.enabled", *UNWATCHED}.isdisjoint(self.options | self.former)

    @property
    def merges(self) -> bool:
        """Whether what a read gives is not rows of files, each for itself."""
        return bool(self.key) or self.joins_rows

    def hides(self, file: File) -> bool:
        """Whether batch reads do not see a file."""
        if not self.key or file.level:
            return False
        has_vectors = self.options.get("deletion-vectors.enabled") == "true"
        on_read = self.options.get("deletion-vectors.merge-on-read") == "true"
        return (has_vectors and not on_read) or self.options.get("merge-engine") == "first-row"

    def all_rows(self) -> Codes:
        return self.merged(frozenset(range(len(self.files)))) if self.merges else self.codes[self.live]

    def merged(self, numbers: frozenset[int]) -> Codes:
        """Return what a read of some files gives that puts rows together where they belong together."""
        groups: dict[object, list[int]] = defaultdict(list)
        for number in sorted(numbers):
            groups[self._group_of(self.files[number])].append(number)
        parts = [self._group(frozenset(group)) for group in groups.values()]
        return np.concatenate([np.zeros((0, len(self.columns)), np.int16), *parts])

    def _group(self, numbers: frozenset[int]) -> Codes:
        found = self._reads.get(numbers)
        if found is None:
            found = self._reads[numbers] = self._join(numbers) if self.joins_rows else self._merge(numbers)
        return found

    def _group_of(self, file: File) -> object:
        return (file.place, file.first_row_id) if self.joins_rows else file.place

    def _merge(self, numbers: frozenset[int]) -> Codes:
        """Return the rows of one bucket, of each key one."""
        partial = self.options.get("merge-engine") == "partial-update"
        newest: dict[tuple[int, ...], NDArray[np.int16] | None] = {}
        files = [self.files[number] for number in numbers if not self.hides(self.files[number])]
        for each in sorted(files, key=lambda file: file.sequence):
            for at, row in enumerate(each.codes):
                if at in each.deleted:
                    continue
                key = tuple(row[list(self.key)].tolist())
                if at in each.removes:
                    newest[key] = None
                    continue
                older = newest.get(key)
                newest[key] = np.where(row == NULL, older, row) if partial and older is not None else row
        rows = [row for row in newest.values() if row is not None]
        return np.array(rows, np.int16).reshape(-1, len(self.columns))

    def _join(self, numbers: frozenset[int]) -> Codes:
        """Return the rows of one group, of each column the newest values."""
        files = sorted((self.files[number] for number in numbers), key=lambda file: file.sequence)
        rows = np.zeros((len(files[0]), len(self.columns)), np.int16)
        for each in files:
            assert each.holds is not None
            rows[:, list(each.holds)] = each.codes[:, list(each.holds)]
        return rows[[at for at in range(len(rows)) if at not in files[0].deleted]]


def random_table(rng: Random) -> RandomTable:
    form = rng.choices(["append", "fixed", "key", "dynamic", "joined"], [5, 2, 3, 2, 3])[0]
    table = _without_files(rng, form)
    match form:
        case "append" | "fixed":
            _append_files(rng, table)
        case "joined":
            _joined_files(rng, table)
        case _:
            _keyed_files(rng, table, form)
    _into_manifests(rng, table)
    table.finish()
    return table


def _without_files(rng: Random, form: str) -> RandomTable:
    schemas = rng.choice([1, 1, 2, 3])
    partitions = rng.choice([0, 0, 1, 1, 2])
    keys = {"append": 0, "joined": 0}.get(form, rng.choice([1, 1, 2]))
    names = rng.sample(_NAMES, rng.randint(max(2, partitions + keys + 1), 8))
    columns, dropped = [], []
    for number, name in enumerate(names):
        is_key = number < partitions + keys
        since = 0 if is_key or form == "joined" else rng.choice([0, 0, 0, schemas - 1])
        if not number:
            # A table has a column at any time.
            since = 0
        kinds: tuple[str, ...] = ()
        if number < partitions:
            kinds = rng.choices([KEY_TYPES, READ_OTHERWISE, PARTITION_TYPES], [6, 2, 2])[0]
        if partitions <= number < partitions + keys:
            kinds = (*KEY_TYPES, *FLOATING, *FLOATING, "BOOLEAN") if form == "fixed" else KEY_TYPES
        present = [schema >= since for schema in range(schemas)]
        columns.append(
            random_column(rng, number, name, present, rng.choice(kinds) if kinds else None, fixed=is_key)
        )
        if since and rng.random() < 0.5:
            # Another column of that name was there before.
            before = [not each for each in present]
            dropped.append(random_column(rng, 100 + number, name, before, fixed=True))
    columns += dropped
    key_places = tuple(range(partitions, partitions + keys))
    options, former = _options(rng, form, [columns[at].field for at in key_places]), {}
    if form == "joined":
        # Drawn apart, so that all else of a seed stays as it is.
        match Random(repr(names)).randrange(6):
            case 0:
                options["global-index.enabled"] = "false"
            case 1:
                options |= UNWATCHED
            case 2 if schemas > 1:
                former = UNWATCHED
    return RandomTable(
        columns,
        schemas,
        tuple(range(partitions)),
        () if form in ("append", "fixed", "joined") else key_places,
        key_places if form in ("fixed", "key") else (),
        options,
        joins_rows=form == "joined",
        engine=rng.random() < 0.5,
        damaged=rng.random() < 0.15,
        former=former,
    )


def _options(rng: Random, form: str, key: Sequence[DataField]) -> dict[str, str]:
    options = {"bucket": "-1"}
    if form in ("fixed", "key"):
        options["bucket"] = str(rng.choice([1, 2, 3, 5]))
    if form == "fixed":
        options["bucket-key"] = ",".join(field.name for field in key)
        hashed = [field.type for field in key]
        if len(hashed) == 1 and hashed[0].root in (TypeRoot.INT, TypeRoot.BIGINT) and rng.random() < 0.5:
            options["bucket-function.type"] = "mod"
        elif not any(each.root is TypeRoot.TIMESTAMP for each in hashed) and rng.random() < 0.2:
            options["bucket-function.type"] = "hive"
    if form in ("append", "fixed") and rng.random() < 0.4:
        options["deletion-vectors.enabled"] = "true"
    if form in ("key", "dynamic"):
        options |= rng.choice(
            [
                {},
                {},
                {"merge-engine": "partial-update"},
                {"merge-engine": "first-row"},
                {"deletion-vectors.enabled": "true"},
                {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
            ]
        )
    if form == "joined":
        options |= {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        options["deletion-vectors.enabled"] = rng.choice(["true", "false"])
    if rng.random() < 0.03:
        options["file-index.read.enabled"] = "false"
    return options


@dataclass
class _Draws:
    """Rows of files that share a liking for some values, so that files differ."""

    rng: Random
    table: RandomTable
    null_rates: list[float]

    @classmethod
    def of(cls, rng: Random, table: RandomTable) -> _Draws:
        return cls(rng, table, [rng.choice([0.0, 0.1, 0.6]) for _ in table.columns])

    def partition(self) -> tuple[int, ...]:
        """Codes of a partition, whose values may be NULL."""
        return tuple(
            NULL if self.rng.random() < 0.1 and not self.table.key else self.rng.choice(column.codes[0])
            for column in (self.table.columns[at] for at in self.table.partitioned_by)
        )

    def codes(self, schema: int, partition: Sequence[int], rows: int) -> Codes:
        rng = self.rng
        drawn = np.zeros((rows, len(self.table.columns)), np.int16)
        for at, column in enumerate(self.table.columns):
            if at in self.table.partitioned_by:
                drawn[:, at] = partition[at]
                continue
            if column.fields[schema] is None:
                continue
            known = column.codes[schema]
            if rng.random() < 0.6 and at not in self.table.key:
                start = rng.randrange(len(known))
                known = known[start : start + rng.randint(1, 3)]
            rate = 0.0 if at in self.table.key else rng.choice([0.0, self.null_rates[at]])
            drawn[:, at] = rng.choices(known, k=rows)
            if rng.random() < 0.05 and at not in self.table.key:
                rate = 1.0
            drawn[[row for row in range(rows) if rng.random() < rate], at] = NULL
        return drawn


def _append_files(rng: Random, table: RandomTable) -> None:
    draws, most = _Draws.of(rng, table), rng.choices([1, 3, 10, 40, 120, 500], [4, 6, 10, 8, 2, 1])[0]
    files = rng.randint(max(1, most // 2), most)
    partitions = [draws.partition() for _ in range(rng.randint(1, 6))]
    totals = {partition: _buckets_of(rng, table) for partition in partitions}
    has_vectors = table.options.get("deletion-vectors.enabled") == "true"
    while len(table.files) < files:
        partition, schema = rng.choice(partitions), rng.randrange(table.schemas)
        rows = draws.codes(schema, partition, rng.choice([1, 2, 3, 5, 8, 20]))
        for bucket, some in _by_bucket(table, schema, rows, totals[partition]):
            deleted: frozenset[int] = frozenset()
            if has_vectors and rng.random() < 0.5:
                share = rng.choice([0.2, 0.5, 1.0])
                deleted = frozenset(at for at in range(len(some)) if rng.random() < share)
            file_format = rng.choice(["parquet", "parquet", "orc", "avro"])
            table.files.append(
                File(schema, partition, bucket, totals[partition], some, 0, deleted, format=file_format)
            )


def _buckets_of(rng: Random, table: RandomTable) -> int:
    declared = int(table.options["bucket"])
    if declared < 0:
        return -1
    return rng.choice([declared, declared, declared, declared + 1])


def _by_bucket(table: RandomTable, schema: int, rows: Codes, total: int) -> Iterator[tuple[int, Codes]]:
    if total < 0:
        yield 0, rows
        return
    function = BucketFunction(table.options.get("bucket-function.type", "default"))
    by_key: dict[tuple[int, ...], int] = {}
    numbers = []
    for row in rows[:, list(table.bucket_key)].tolist():
        key = tuple(row)
        if key not in by_key:
            by_key[key] = bucket_of(function, *_stored_key(table, schema, key), total)
        numbers.append(by_key[key])
    for bucket in sorted(set(numbers)):
        yield bucket, rows[np.array(numbers) == bucket]


def _stored_key(table: RandomTable, schema: int, key: Sequence[int]) -> tuple[list[Value | None], list]:  # type: ignore[type-arg]
    columns = [table.columns[at] for at in table.bucket_key]
    values = [column.stored[schema][code] for column, code in zip(columns, key, strict=True)]
    return values, [column.field.type for column in columns]


def _keyed_files(rng: Random, table: RandomTable, form: str) -> None:
    draws = _Draws.of(rng, table)
    engine = table.options.get("merge-engine", "deduplicate")
    has_vectors = table.options.get("deletion-vectors.enabled") == "true"
    one_version = has_vectors or engine == "first-row"
    partitions = [draws.partition() for _ in range(rng.randint(1, 3))]
    sequence = 0
    for partition in dict.fromkeys(partitions):
        total = _buckets_of(rng, table)
        buckets: Mapping[tuple[int, ...], int] = defaultdict(lambda: rng.randrange(3))
        taken: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for level in [5, 5, 4, 0, 0, 0][: rng.randint(1, 6)] if rng.random() < 0.8 else [0, 0]:
            schema = rng.randrange(table.schemas)
            rows = draws.codes(schema, partition, rng.choice([2, 5, 12]))
            _, first = np.unique(rows[:, list(table.key)], axis=0, return_index=True)
            rows = rows[np.sort(first)]
            if form == "dynamic":
                numbers = [buckets[tuple(key)] for key in rows[:, list(table.key)].tolist()]
                parts = [(each, rows[np.array(numbers) == each]) for each in sorted(set(numbers))]
            else:
                parts = list(_by_bucket(table, schema, rows, total))
            for bucket, some in parts:
                for run in _sorted_runs(rng, table, schema, some):
                    deleted: frozenset[int] = frozenset()
                    kept = run
                    if level and one_version:
                        # A compacted file has keys that no other one has, but for those that vectors delete.
                        keys = [tuple(key) for key in run[:, list(table.key)].tolist()]
                        again = [at for at, key in enumerate(keys) if key in taken[bucket]]
                        taken[bucket] |= set(keys)
                        if has_vectors:
                            extra = [at for at in range(len(run)) if rng.random() < 0.2]
                            deleted = frozenset([*again, *extra])
                        else:
                            kept = np.delete(run, again, axis=0)
                            if not len(kept):
                                continue
                    removes: frozenset[int] = frozenset()
                    if engine == "deduplicate" and not (level and one_version) and rng.random() < 0.3:
                        removes = frozenset(at for at in range(len(kept)) if rng.random() < 0.3)
                    file = File(schema, partition, bucket, total, kept, level, deleted, sequence, removes)
                    table.files.append(file)
                sequence += 100
    _disjoint_levels(table)


def _sorted_runs(rng: Random, table: RandomTable, schema: int, rows: Codes) -> list[Codes]:
    """Rows in the order of their keys, cut into files."""
    order = sorted(range(len(rows)), key=lambda at: _key_order(table, schema, rows[at]))
    rows = rows[order]
    cut = rng.randint(1, len(rows))
    return [part for part in (rows[:cut], rows[cut:]) if len(part)]


def _key_order(table: RandomTable, schema: int, row: Codes) -> list[Value]:
    found = [table.columns[at].stored[schema][row[at]] for at in table.key]
    return [each for each in found if each is not None]


def _disjoint_levels(table: RandomTable) -> None:
    """Files of one level above 0 do not overlap: those that would become level 0."""
    reached: dict[object, list[tuple[list[Value], list[Value]]]] = defaultdict(list)
    for file in table.files:
        if not file.level:
            continue
        ends = [_key_order(table, file.schema, file.codes[at]) for at in (0, -1)]
        others = reached[file.place, file.level]
        if any(ends[0] <= high and low <= ends[1] for low, high in others):
            file.level = 1 + len(reached[file.place, "moved"])
            reached[file.place, "moved"].append((ends[0], ends[1]))
        else:
            others.append((ends[0], ends[1]))


def _joined_files(rng: Random, table: RandomTable) -> None:
    draws = _Draws.of(rng, table)
    partitions = [draws.partition() for _ in range(rng.randint(1, 3))]
    row_id, sequence = 0, 0
    for _ in range(rng.choice([1, 3, 10, 40])):
        partition, count = rng.choice(partitions), rng.choice([1, 2, 5, 9])
        members = rng.choice([1, 1, 2, 3])
        deleted: frozenset[int] = frozenset()
        if table.options["deletion-vectors.enabled"] == "true" and rng.random() < 0.4:
            deleted = frozenset(at for at in range(count) if rng.random() < 0.6)
        for member in range(members):
            schema = rng.randrange(table.schemas)
            places = [at for at in range(len(table.columns)) if member == 0 or rng.random() < 0.4]
            # Partition columns are in the first file alone: later files change other columns.
            later = [at for at in places if at not in table.partitioned_by]
            holds = tuple(places if member == 0 else later or [len(table.columns) - 1])
            sequence += 1
            file = File(
                schema,
                partition,
                0,
                -1,
                draws.codes(schema, partition, count),
                deleted=deleted if member == 0 else frozenset(),
                sequence=sequence,
                first_row_id=row_id,
                holds=holds,
            )
            table.files.append(file)
        row_id += count


def _into_manifests(rng: Random, table: RandomTable) -> None:
    numbers = list(range(len(table.files)))
    if rng.random() < 0.5:
        rng.shuffle(numbers)
    count = rng.choice([1, 1, 1, 2, 4, 12])
    table.manifests = [numbers[at::count] for at in range(count)]
