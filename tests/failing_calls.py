"""Storage whose n-th call fails: a library's filesystem over a directory, and system calls below one."""

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, Final

import fsspec
from fsspec.asyn import AsyncFileSystem

from app.storage import RetryPolicy, Warehouse
from app.work import Cancellation

PROTOCOL: Final = "failing"
_WRITES: Final = ("pipe_file", "rm_file")


class Failure(Enum):
    ERROR = auto()
    """It fails, and nothing was done."""
    LOST = auto()
    """It is done, and its answer is lost."""
    MISSING = auto()
    """The file is said not to be there."""
    SHORT = auto()
    """Half of the bytes come."""
    GARBAGE = auto()
    """As many other bytes come."""
    HANG = auto()
    """It never ends."""


@dataclass(eq=False)
class Calls:
    """The calls of a filesystem.

    Attributes:
        fails_at: the number of the call that fails, from 0 on; None for none.
        failure: what becomes of it.
        made: the calls so far, each its name and path.
        failed: the call that did.
        caller: goes away once a call hangs.
    """

    fails_at: int | None = None
    failure: Failure = Failure.ERROR
    made: list[str] = field(default_factory=list)
    failed: str | None = None
    caller: Cancellation = field(default_factory=Cancellation)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, call: str) -> bool:
        with self._lock:
            self.made.append(call)
            if len(self.made) - 1 != self.fails_at:
                return False
            self.failed = call
            return True


class FailingFileSystem(AsyncFileSystem):  # type: ignore[misc] # fsspec is not typed
    """Files of this machine as an object store has them."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, calls: Calls, **others: Any) -> None:
        super().__init__(**others)
        self.calls = calls

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix(f"{PROTOCOL}://").strip("/")

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: object
    ) -> bytes:
        def read() -> bytes:
            return Path(path).read_bytes()[start or 0 : end]

        content: bytes = await self._call("cat_file", path, read)
        return content

    async def _ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:  # noqa: FBT002 - as the base has it
        def names() -> list[str]:
            return [str(each) for each in sorted(Path(path).iterdir())]

        found: list[str] = await self._call("ls", path, names)
        return [await self._info(each) for each in found] if detail else found

    async def _info(self, path: str, **_: object) -> dict[str, Any]:
        def information() -> dict[str, Any]:
            is_file = Path(path).is_file()
            size = Path(path).stat().st_size
            return {"name": path, "size": size if is_file else 0, "type": "file" if is_file else "directory"}

        found: dict[str, Any] = await self._call("info", path, information)
        return found

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        def write() -> None:
            if mode == "create" and Path(path).exists():
                raise FileExistsError(path)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(value)

        await self._call("pipe_file", path, write)

    async def _rm_file(self, path: str, **_: object) -> None:
        await self._call("rm_file", path, Path(path).unlink)

    async def _call(self, name: str, path: str, work: Callable[[], Any]) -> Any:
        if not self.calls.count(f"{name} {path}"):
            return work()
        match self.calls.failure:
            case Failure.HANG:
                self.calls.caller.cancel()
                await asyncio.Event().wait()
            case Failure.MISSING:
                raise FileNotFoundError(path)
            case Failure.SHORT | Failure.GARBAGE if name == "cat_file":
                content = work()
                half = content[: len(content) // 2]
                return half if self.calls.failure is Failure.SHORT else bytes(each ^ 0x5A for each in content)
            case Failure.LOST if name in _WRITES:
                work()
        raise OSError(errno.EIO, "the call fails")


fsspec.register_implementation(PROTOCOL, FailingFileSystem, clobber=True)


def failing_warehouse(root: Path, calls: Calls, name: str = "golden") -> Warehouse:
    """Return a warehouse over a directory; no call is repeated, so that what fails once is not made good."""
    retry = RetryPolicy(attempts=1)
    options = {"calls": calls, "skip_instance_cache": True}
    return Warehouse(name, f"{PROTOCOL}://{root}", options=options, retry=retry)


_SYSTEM_CALLS: Final = frozenset(
    {"open", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.listdir", "os.utime"}
)
_failing: list[tuple[str, Calls]] = []
"""The directory whose system calls are counted, if any."""


@contextmanager
def failing_disk(directory: Path, fails_at: int | None) -> Iterator[Calls]:
    """Count the system calls of a block that name a file below a directory, and fail one, in any thread."""
    _hear()
    calls = Calls(fails_at)
    _failing.append((os.fspath(directory), calls))
    try:
        yield calls
    finally:
        _failing.clear()


@cache
def _hear() -> None:
    """Listen to system calls from now on; Python has no way to end that."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if not _failing or event not in _SYSTEM_CALLS or not isinstance(arguments[0], str | os.PathLike):
            return
        (directory, calls), path = _failing[0], os.fspath(arguments[0])
        if path.startswith(directory) and calls.count(f"{event} {path}"):
            raise OSError(errno.ENOSPC, "the disk is full", path)

    sys.addaudithook(hear)
