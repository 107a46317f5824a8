"""``build-index``: the file indexes of a table's data files, built in tasks and committed as one snapshot.

A data file stays in place: an entry with the index replaces its entry, as the engine does when it rewrites
file indexes (``COMPACT``). If another commit has removed a file meanwhile, by compaction, its new index is
dropped and the others are committed.

A replaced entry must never return with its former identity: readers would take the file for removed
(:mod:`app.table.commits.changes`). So random bytes, which no reader looks at, follow an embedded index that
was taken off and built again. A file whose index is taken off a second time gets an index without columns.

A file keeps every index unless the caller names it to be taken off. Files that have the declared indexes are
left alone, so that a finished job can run again.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from app.building import Advance, ColumnTypes, DataFile, advise, ignore_progress, table_options
from app.errors import CommitConflictError, JobError, RequestError
from app.file_index import FileIndexOptions, IndexDefinition
from app.file_index.bloom_filter import BloomFilterOptions, payload_bytes, rounded_items
from app.file_index.container import write
from app.jobs.index_tasks import BuildTask, BuiltFile, IndexedFile, build_file, options_in_file
from app.jobs.job_table import JobTable, Place, local_file
from app.jobs.run import FilesOfRun, JobRun, WrittenFiles, remove
from app.jobs.tasks import run_tasks
from app.options import split_map_key
from app.options.file_indexes import PREFIX, THRESHOLD, with_added
from app.planning import Version
from app.planning.request import NamedPartition
from app.table import POSTPONED_BUCKET
from app.table.commits import Changes, CommitKind, Committer, identity, live_entries, removed_identities
from app.table.manifests import FILE_INDEX_SUFFIX, FileKind, ManifestEntry
from app.types import DataType, Json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_COLUMNS: Final = write({})
_NONCE_BYTES: Final = 8
_TOKEN_BYTES: Final = 8
# Files of a job whose index files the driver reads before the first task.
_FILES_READ_FIRST: Final = 100
# Attempts to commit, each without the files that other commits have removed.
_COMMITS: Final = 10


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Outcome for one index of one column, in numbers of files.

    Attributes:
        column: present name of the column, or ``column[key]``.
        declared: True if options of the table or of the job name the index.
        built: files whose index was built or rebuilt.
        kept: files that keep the index that they had.
        taken_off: files that lost the index.
    """

    kind: str
    column: str
    declared: bool
    built: int
    kept: int
    taken_off: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Result of a job about file indexes."""

    snapshot_id: int | None = None
    built: int = 0
    dropped: int = 0
    unchanged: int = 0
    skipped: int = 0
    overtaken: int = 0
    embedded: int = 0
    index_bytes: int = 0
    row_count: int = 0
    options: Mapping[str, str] | None = None
    indexes: tuple[IndexCounts, ...] = ()


def build_index(  # noqa: PLR0913 - each is a choice of its own
    spark: SparkSession,
    table: JobTable,
    *,
    options: Mapping[str, str] | None = None,
    partitions: Sequence[Mapping[str, Json]] | None = None,
    advised: bool = False,
    take_off: Sequence[tuple[str, str]] = (),
    missing_only: bool = False,
    rebuild: bool = False,
    anyway: bool = False,
    advance: Advance = ignore_progress,
) -> IndexReport:
    """Build the file indexes of a table, in addition to those that its files have.

    ``partitions``: the only partitions to include, each as values by column.
    ``advised``: adds the indexes that the values of the largest file suggest.
    ``take_off``: column and kind of each index that files lose.
    ``missing_only``: skips files that have any index.
    ``rebuild``: builds declared indexes again in files that have them.
    ``anyway``: commits even if an index takes more bytes than its data files.

    Raises JobError if an index takes more bytes than its data files. Nothing is committed then. Bloom
    filters, whose size follows from the options, are refused before the first task. Each note of the error
    is an option to add.
    """
    committer, version = table.committer(), table.latest()
    entries = list(chosen_entries(version, partitions))
    if advised:
        options = _advised(table, version, entries)
    values = with_added(version.schema.options.values, options or {})
    declared, removed = _definitions(table.name, version, values, take_off)
    token = secrets.token_hex(_TOKEN_BYTES)
    chosen = [entry for entry in entries if not (missing_only and has_index(entry))]
    tasks = {
        task.file.number: task
        for task in _tasks(table.place, version, chosen, declared, removed, token, rebuild=rebuild)
    }
    build = _Build(table, version, chosen, tasks, () if anyway else declared.indexes)
    build.check_expected_sizes()
    results, committed, overtaken, snapshot_id = build.run(
        spark, committer, JobRun(spark.sparkContext, token), advance
    )
    examined = [*committed, *(result for result in results if not result.is_new)]
    return IndexReport(
        snapshot_id,
        built=len(committed),
        unchanged=len(tasks) - len(committed) - overtaken + len(entries) - len(chosen),
        skipped=len(chosen) - len(tasks),
        overtaken=overtaken,
        embedded=sum(result.embedded is not None for result in committed),
        index_bytes=sum(result.size_bytes for result in committed),
        row_count=sum(result.row_count for result in committed),
        options={name: text for name, text in values.items() if _defines_index(name)},
        indexes=_count_indexes(
            version, ((chosen[result.number], tasks[result.number], result) for result in examined)
        ),
    )


@dataclass(frozen=True, slots=True)
class _Build:
    """The build of one job. ``tasks`` has its tasks by the number of their file in ``entries``."""

    table: JobTable
    version: Version
    entries: Sequence[ManifestEntry]
    tasks: Mapping[int, BuildTask]
    checked: Sequence[IndexDefinition]  # Indexes that must not be larger than their data files.

    def check_expected_sizes(self) -> None:
        """Raise JobError if bloom filters, whose sizes the options state, are too large."""
        reads_all = len(self.tasks) <= _FILES_READ_FIRST
        self._check_sizes(
            (number, _expected_sizes(self.entries[number], task, reads_all=reads_all))
            for number, task in self.tasks.items()
        )

    def run(
        self, spark: SparkSession, committer: Committer, run: JobRun, advance: Advance
    ) -> tuple[list[BuiltFile], list[BuiltFile], int, int | None]:
        """Build and commit.

        Return all results, the results that were committed, the number of files that other commits removed
        first, and the id of the new snapshot, if any.
        """
        writing = self.table.writing
        # The longest tasks go first, so that none runs alone at the end.
        ordered = sorted(self.tasks.values(), key=lambda task: -task.file.row_count)
        paths = {number: task.new_path for number, task in self.tasks.items()}
        files = FilesOfRun(run, partial(_files_in_same_directories, self.table.place, tuple(paths.values())))
        with WrittenFiles(writing, files) as written:
            size = sum(self.entries[number].file.file_size for number in self.tasks)
            label = f"build-index {self.table.name}"
            results = run_tasks(spark, label, build_file, ordered, advance, size_bytes=size, group=run.token)
            built = {result.number: result for result in results if result.is_new}
            new = [
                (self.entries[number], _with_index(self.entries[number], result, paths[number]))
                for number, result in built.items()
            ]
            # An attempt that Spark has repeated or given up may have left files that no result names.
            is_complete = run.settle()
            self._check_sizes((number, result.sizes_of_new) for number, result in built.items())
            written.is_committing = True
            snapshot_id, overtaken = commit_replacements(committer, new)
        overtaken_ids = {identity(entry) for entry in overtaken}
        lost = {number for number in built if identity(self.entries[number]) in overtaken_ids}
        for number in lost:
            if built[number].embedded is None:
                # Nothing refers to the index file of an entry that was not committed.
                writing.delete(paths[number])
        committed = [result for number, result in built.items() if number not in lost]
        if not is_complete:
            indexed = [result.number for result in committed if result.embedded is None]
            remove(writing, replace(files, named={paths[number].rpartition("/")[2] for number in indexed}))
        return results, committed, len(overtaken), snapshot_id

    def _check_sizes(self, sizes: Iterable[tuple[int, Mapping[tuple[str, str], int]]]) -> None:
        files = [(self.entries[number], each) for number, each in sizes]
        _check_sizes(self.table.name, self.version, self.checked, files)


def _indexes_to_take_off(
    take_off: Sequence[tuple[str, str]], table_options: FileIndexOptions, types: Mapping[str, DataType]
) -> FileIndexOptions:
    named = [FileIndexOptions.parse({f"{PREFIX}{kind}.columns": column}, types) for column, kind in take_off]
    indexes = tuple(chain.from_iterable(each.indexes for each in named))
    declared = {(index.column, index.kind) for index in table_options.indexes}
    for index in indexes:
        if (index.column, index.kind) in declared:
            raise RequestError(
                f"the {index.kind} of {index.column!r} is not taken off while {PREFIX}{index.kind}.columns "
                "names it, since the next job would build it again: alter the table first"
            )
    return FileIndexOptions(indexes)


def _definitions(
    name: str, version: Version, values: Mapping[str, str], take_off: Sequence[tuple[str, str]]
) -> tuple[FileIndexOptions, FileIndexOptions]:
    """Return the indexes to build and those to take off. Raises RequestError if there is nothing to do."""
    types = {column.name: column.type for column in version.schema.fields}
    declared = FileIndexOptions.parse(values, types)
    removed = _indexes_to_take_off(take_off, declared, types)
    if not declared.indexes and not removed.indexes and THRESHOLD not in values:
        raise RequestError(f"table {name} has no option file-index.<type>.columns: set one, or pass options")
    return declared, removed


def _tasks(
    place: Place,
    version: Version,
    entries: Sequence[ManifestEntry],
    declared: FileIndexOptions,
    removed: FileIndexOptions,
    token: str,
    *,
    rebuild: bool,
) -> Iterator[BuildTask]:
    for number, entry in enumerate(entries):
        in_file, removed_in_file = (
            options_in_file(
                each, version.schema, version.file_schema(entry.file.schema_id), entry.file.write_columns
            )
            for each in (declared, removed)
        )
        if in_file.indexes or has_index(entry):
            file = indexed_file(version, number, entry)
            new_path = f"{file.path}-{token}-1{FILE_INDEX_SUFFIX}"
            take_off = frozenset((index.column, str(index.kind)) for index in removed_in_file.indexes)
            yield BuildTask(place, file, in_file, take_off, new_path, rebuild)


def _expected_sizes(entry: ManifestEntry, task: BuildTask, *, reads_all: bool) -> dict[tuple[str, str], int]:
    """Return the bytes of the bloom filters that a task is sure to build, by column and kind."""
    is_known = reads_all or task.file.side_path is None
    before = task.indexes_before() if is_known else frozenset()
    expected = {}
    for index in task.options.indexes:
        # A file may have no value under a key of a map, and then gets an empty index.
        if isinstance(index.options, BloomFilterOptions) and split_map_key(index.column)[1] is None:
            size = payload_bytes(index.options.items, index.options.fpp)
            key = index.column, str(index.kind)
            # An index file that was not read may have the index. Then a large one must not count.
            if key not in before and (is_known or size < entry.file.file_size):
                expected[key] = size
    return expected


def _check_sizes(
    name: str,
    version: Version,
    checked: Sequence[IndexDefinition],
    files: Sequence[tuple[ManifestEntry, Mapping[tuple[str, str], int]]],
) -> None:
    """Raise JobError if new indexes, by column and kind as each file names them, outweigh their files."""
    index_bytes: Counter[tuple[str, str]] = Counter()
    data_bytes: Counter[tuple[str, str]] = Counter()
    for entry, sizes in files:
        for (column, kind), size in sizes.items():
            now = _present_name(version, entry.file.schema_id, column)
            index_bytes[now, kind] += size
            data_bytes[now, kind] += entry.file.file_size
    items = rounded_items(max((entry.file.row_count for entry, _ in files), default=1))
    large, to_add = [], []
    for index in checked:
        size, data_size = (each[index.column, str(index.kind)] for each in (index_bytes, data_bytes))
        if size > data_size:
            is_roomy = isinstance(index.options, BloomFilterOptions) and index.options.items > items
            if is_roomy:
                to_add.append(f"--option {PREFIX}{index.kind}.{index.column}.items={items}")
            remedy = f"make room for {items:,} values" if is_roomy else "leave it out"
            large.append(
                f"the {index.kind} of {index.column!r} takes {size:,} bytes beside {data_size:,} bytes of "
                f"data: {remedy}"
            )
    if large:
        error = JobError(
            f"build-index {name} commits nothing, since without --anyway no index may be larger than its "
            f"data: {'; '.join(large)}{'. Add to the command:' if to_add else ''}"
        )
        for option in to_add:
            error.add_note(option)
        raise error


def _files_in_same_directories(place: Place, paths: Iterable[str]) -> Iterator[str]:
    for directory in {path.rpartition("/")[0] for path in paths}:
        for name in place.open().list_names(directory):
            yield f"{directory}/{name}"


def drop_index(table: JobTable, *, partitions: Sequence[Mapping[str, Json]] | None = None) -> IndexReport:
    """Take the file indexes off a table's data files. Index files stay for older snapshots."""
    committer, version = table.committer(), table.latest()
    entries = list(chosen_entries(version, partitions))
    indexed = [entry for entry in entries if has_index(entry)]
    snapshot_id, overtaken = commit_replacements(
        committer, [(entry, entry.without_index()) for entry in indexed]
    )
    dropped = len(indexed) - len(overtaken)
    return IndexReport(
        snapshot_id, dropped=dropped, unchanged=len(entries) - len(indexed), overtaken=len(overtaken)
    )


def indexed_file(version: Version, number: int, entry: ManifestEntry) -> IndexedFile:
    """Describe a data file for tasks."""
    path = version.source.data.data_file(entry)
    side = next((name for name in entry.file.extra_files if name.endswith(FILE_INDEX_SUFFIX)), None)
    return IndexedFile(
        number,
        path,
        entry.file.row_count,
        {column.name: column.type for column in version.file_schema(entry.file.schema_id).fields},
        entry.file.embedded_index,
        None if side is None else f"{path.rpartition('/')[0]}/{side}",
    )


def chosen_entries(
    version: Version, partitions: Sequence[Mapping[str, Json]] | None
) -> Iterator[ManifestEntry]:
    """Yield the data files that batch reads see, in some partitions or all."""
    named = [NamedPartition.read(version.schema, given) for given in partitions or ()]
    for entry in version.files().entries(version.files().all()):
        # Batch reads do not see rows that wait for their bucket.
        if entry.bucket == POSTPONED_BUCKET:
            continue
        values = version.partitions.values(entry.partition)
        if partitions is None or any(partition.could_be(values) for partition in named):
            yield entry


def _advised(table: JobTable, version: Version, entries: Sequence[ManifestEntry]) -> dict[str, str]:
    of_schema = [entry for entry in entries if entry.file.schema_id == version.schema_id] or entries
    if not of_schema:
        raise RequestError(f"table {table.name} has no data files to take advice from")
    file = indexed_file(version, 0, max(of_schema, key=lambda entry: entry.file.row_count))
    with local_file(table.place.open(), file.path) as local:
        data = DataFile.open(local)
        advice = advise(data, ColumnTypes(data, file.types))
    columns = set(version.schema.by_name)
    options = table_options(tuple(column for column in advice if column.column in columns))
    if not options:
        raise RequestError(f"no column of table {table.name} is worth an index, judged by {file.path}")
    return options


def _defines_index(option: str) -> bool:
    return option.startswith(PREFIX) and option not in (THRESHOLD, "file-index.read.enabled")


def has_index(entry: ManifestEntry) -> bool:
    """Return True if a data file has a file index, embedded or next to it, with at least one column."""
    file = entry.file
    if file.embedded_index is not None:
        # An index without columns only gives its entry a new identity.
        return not file.embedded_index.startswith(_NO_COLUMNS)
    return any(name.endswith(FILE_INDEX_SUFFIX) for name in file.extra_files)


def _with_index(entry: ManifestEntry, built: BuiltFile, path: str) -> ManifestEntry:
    bare = entry.without_index()
    if not built.size_bytes:
        return bare
    if built.embedded is not None:
        return replace(bare, file=replace(bare.file, embedded_index=built.embedded))
    side = path.rpartition("/")[2]
    return replace(bare, file=replace(bare.file, extra_files=(*bare.file.extra_files, side)))


def _with_new_identity(entry: ManifestEntry) -> ManifestEntry:
    content = (entry.file.embedded_index or _NO_COLUMNS) + secrets.token_bytes(_NONCE_BYTES)
    return replace(entry, file=replace(entry.file, embedded_index=content))


def commit_replacements(
    committer: Committer, pairs: Sequence[tuple[ManifestEntry, ManifestEntry]]
) -> tuple[int | None, list[ManifestEntry]]:
    """Replace live entries. Return the id of the new snapshot, if any, and the entries that are not live."""
    pending = [(old, new) for old, new in pairs if old != new]
    overtaken: list[ManifestEntry] = []
    for _ in range(_COMMITS):
        if not pending:
            return None, overtaken
        manifests = committer.table.metadata.manifests(committer.table.resolve())
        removed = removed_identities(manifests, [old.file.file_name for old, _ in pending])
        files = [replace(old, kind=FileKind.DELETE) for old, _ in pending]
        files += [_with_new_identity(new) if identity(new) in removed else new for _, new in pending]
        try:
            return committer.commit(Changes(CommitKind.COMPACT, tuple(files))), overtaken
        except CommitConflictError:
            manifests = committer.table.metadata.manifests(committer.table.resolve())
            live = live_entries(manifests, [old.file.file_name for old, _ in pending])
            conflicting = [old for old, _ in pending if identity(old) not in live]
            if not conflicting:
                raise
            overtaken += conflicting
            pending = [pair for pair in pending if identity(pair[0]) in live]
    raise CommitConflictError("other commits came in between again and again: run the job again")


def _count_indexes(
    version: Version, files: Iterable[tuple[ManifestEntry, BuildTask, BuiltFile]]
) -> tuple[IndexCounts, ...]:
    counts: defaultdict[tuple[str, str, bool], Counter[str]] = defaultdict(Counter)
    for entry, task, file in files:
        for column, kind in file.before | file.built.keys():
            index = column, kind
            outcome = "built" if index in file.built else "taken_off" if index in task.take_off else "kept"
            now = _present_name(version, entry.file.schema_id, column)
            counts[kind, now, index in task.declared][outcome] += 1
    return tuple(
        IndexCounts(*index, outcome["built"], outcome["kept"], outcome["taken_off"])
        for index, outcome in sorted(counts.items())
    )


def _present_name(version: Version, schema_id: int, name: str) -> str:
    """Return the present name of a file's column, or its old name if the column was dropped."""
    column, key = split_map_key(name)
    old = version.file_schema(schema_id).by_name.get(column)
    new = None if old is None else version.schema.by_id.get(old.id)
    now = column if new is None else new.name
    return now if key is None else f"{now}[{key}]"
