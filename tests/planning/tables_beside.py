"""A table with an index beside each data file, and what plans read of these."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

from app.file_index import container
from app.file_index.bloom_filter import bloom_filter
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER
from app.file_index.stacked_index import FileIndex
from app.planning.request.limits import CacheBytes
from app.planning.service import IndexService
from app.types import DataField, parse_type
from tests.key_columns import key_column
from tests.planning.counted_reads import Read, Reads, counted_service
from tests.tables import MadeTable, entry, names_of, open_service, payload, statistics

MakeBeside: TypeAlias = "Callable[[Callable[[int], bytes]], Beside]"

ID, CAT, PLACE = (
    DataField(at, name, parse_type(written))
    for at, (name, written) in enumerate({"id": "BIGINT", "cat": "INT", "place": "INT"}.items())
)
FILES = 6
ROWS = 3
DEFAULT_FILTER_BYTES = 599_071
"""A bloom filter of the default size, whatever it is about."""


def large(file: int) -> bytes:
    """The index of a file: ``id`` is ``file`` and ``cat`` its last digit, with much on ``id`` in front."""
    return container.write(
        {
            "id": [("bloom-filter", bloom_filter.write(key_column([file] * ROWS, ID.type)))],
            "cat": [("bitmap", payload(BITMAP, [file % 10] * ROWS, CAT))],
        }
    )


def small(file: int) -> bytes:
    """The same without what is large."""
    return container.write(
        {
            "id": [("bloom-filter", payload(BLOOM_FILTER, [file] * ROWS, ID))],
            "cat": [("bitmap", payload(BITMAP, [file % 10] * ROWS, CAT))],
        }
    )


@dataclass(frozen=True)
class Beside:
    """A table whose files have indexes beside them, and what is read of these.

    Statistics tell where a file stands, and nothing else of use.
    """

    made: MadeTable
    service: IndexService
    reads: Reads

    @classmethod
    def write(cls, root: Path, index: Callable[[int], bytes]) -> Self:
        """The table alone in a warehouse, each file with the ``index`` of its number."""
        made = MadeTable.make(root, (ID, CAT, PLACE))
        for file in range(FILES):
            made.side_file(str(file)).write_bytes(index(file))
        entries = [
            entry(
                file_name=str(file),
                row_count=ROWS,
                extra_files=(f"{file}.index",),
                **statistics({ID: [0, 0, 99], CAT: [0, 0, 9], PLACE: [file] * ROWS}),
            )
            for file in range(FILES)
        ]
        made.commit(entries[:4], entries[4:])
        reads = Reads()
        return cls(made, counted_service(root, reads), reads)

    def local_service(self, cache_bytes: CacheBytes | None = None) -> IndexService:
        """A service that reads the same files as those of a local disk."""
        return open_service(self.made.directory.parent.parent, cache_bytes=cache_bytes)

    def kept(self, written: str) -> list[str]:
        plan = self.made.plan(self.service, written)
        assert not plan.warnings
        return names_of(plan.files)

    def extent(self, file: str, column: str) -> Read:
        """Where the only index of a column lies."""
        (found,) = FileIndex.read(self.made.side_file(file).read_bytes()).entries[column]
        return Read(file, found.start, found.end)
