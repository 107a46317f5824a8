"""A table with an index beside each data file, and storage that notes what plans read of these."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import fsspec
from fsspec.implementations.local import LocalFileSystem

from app.file_index import container
from app.file_index.bloom_filter import bloom_filter
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER
from app.file_index.stacked_index import FileIndex
from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.storage import RetryPolicy, Warehouse
from app.types import DataField, parse_type
from tests.key_columns import key_column
from tests.tables import MadeTable, file_of, names_of, open_service, payload

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
    """Return index of a file: ``id`` is ``file`` and ``cat`` its last digit, with much on ``id`` in front."""
    return container.write(
        {
            "id": [("bloom-filter", bloom_filter.write(key_column([file] * ROWS, ID.type)))],
            "cat": [("bitmap", payload(BITMAP, [file % 10] * ROWS, CAT))],
        }
    )


def small(file: int) -> bytes:
    return container.write(
        {
            "id": [("bloom-filter", payload(BLOOM_FILTER, [file] * ROWS, ID))],
            "cat": [("bitmap", payload(BITMAP, [file % 10] * ROWS, CAT))],
        }
    )


class Read(NamedTuple):
    """Some bytes of an index file; ``end`` may lie behind its last one."""

    file: str
    start: int
    end: int


@dataclass(slots=True)
class Reads:
    """What was read of ``.index`` files.

    Attributes:
        made: every read that did not fail, in the order in which they began.
        before: called before each; what it raises, storage raises.
    """

    made: list[Read] = field(default_factory=list)
    before: Callable[[Read], None] = lambda _: None

    def taken(self) -> list[Read]:
        """Return the reads since this was last asked, sorted."""
        made, self.made = self.made, []
        return sorted(made)


class CountedFileSystem(LocalFileSystem):  # type: ignore[misc]
    protocol = "counted"
    cachable = False

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self.reads = reads

    def cat_file(self, path: str, start: int = 0, end: int = 0, **options: Any) -> bytes:
        if path.endswith(".index"):
            read = Read(path.rpartition("/")[2].removesuffix(".index"), start, end)
            self.reads.before(read)
            self.reads.made.append(read)
        content: bytes = super().cat_file(path, start, end, **options)
        return content

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("counted://").strip("/")


def counted_service(root: Path, reads: Reads, cache_bytes: CacheBytes | None = None) -> IndexService:
    """Return a service of one warehouse, named ``golden``, that never waits before it reads again."""
    fsspec.register_implementation("counted", CountedFileSystem, clobber=True)
    warehouse = Warehouse(
        "golden",
        f"counted:/{root}",
        options={"reads": reads},
        retry=RetryPolicy(attempts=2, first_wait_seconds=0),
    )
    return IndexService({"golden": warehouse}, cache_bytes=cache_bytes or CacheBytes(), limits=Limits())


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
        """Return the table alone in a warehouse, each file with the ``index`` of its number."""
        made = MadeTable.make(root, (ID, CAT, PLACE))
        known = {ID: [0, 0, 99], CAT: [0, 0, 9]}
        entries = [
            made.beside(file_of(str(at), {**known, PLACE: [at] * ROWS}, embedded_index=index(at)))
            for at in range(FILES)
        ]
        made.commit(entries[:4], entries[4:])
        reads = Reads()
        return cls(made, counted_service(root, reads), reads)

    def local_service(self, cache_bytes: CacheBytes | None = None) -> IndexService:
        return open_service(self.made.directory.parent.parent, cache_bytes=cache_bytes)

    def kept(self, written: str) -> list[str]:
        plan = self.made.plan(self.service, written)
        assert not plan.warnings
        return names_of(plan.files)

    def extent(self, file: str, column: str) -> Read:
        (found,) = FileIndex.read(self.made.side_file(file).read_bytes()).entries[column]
        return Read(file, found.start, found.end)
