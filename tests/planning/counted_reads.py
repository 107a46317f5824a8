"""Storage that notes what is read of index files, and that a test may hold up or let fail."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.storage import RetryPolicy, Warehouse


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
        """The reads since this was last asked, sorted."""
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
    """A service of one warehouse, named ``golden``, that never waits before it reads again."""
    fsspec.register_implementation("counted", CountedFileSystem, clobber=True)
    warehouse = Warehouse(
        "golden",
        f"counted:/{root}",
        options={"reads": reads},
        retry=RetryPolicy(attempts=2, first_wait_seconds=0),
    )
    return IndexService({"golden": warehouse}, cache_bytes=cache_bytes or CacheBytes(), limits=Limits())
