"""Stores over fsspec's libraries. A call ends with the request that made it.

Libraries of object stores are configured without cached listings, with short timeouts, and without retries,
which would multiply those of :mod:`app.storage.retry` and delay the answer. Settings without an option are
patched where the library keeps them.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import inspect
import secrets
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import fsspec
from fsspec.asyn import get_loop
from typing_extensions import override

from app.errors import FileMissingError, SettingsError
from app.storage.stores.failures import failure_of, is_behind_the_end
from app.storage.stores.store import Attempt, Store, StoredFile, _Result
from app.work import wait_for

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

STALL_SECONDS: Final = 3.0
# Lowest rate of a read: a store that sends a byte now and then counts as stalled.
_LEAST_BYTES_PER_SECOND: Final = 64 << 10
# The length of a listing is unknown; only S3 limits each of its pages.
_SHORT_ANSWERS: Final = ("info", "exists")
HADOOP: Final = frozenset({"hdfs", "viewfs"})
"""Schemes of Hadoop's filesystems, which hdfs-native reads."""
_LIBRARIES: Final = {
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "oss": "oss",
    "http": "http",
    "https": "http",
}
# Maximum bytes of a key in S3; other stores allow no more.
_LONGEST_KEY: Final = 1024
# Names that libraries give a file's modification time.
_TIME_NAMES: Final = ("last_modified", "LastModified", "mtime", "updated", "created")
# HTTP stores: an object with the name exists, so the exclusive create failed.
_PRECONDITION_FAILED: Final = "HTTP 412"


class LibraryStore(Store):
    """A directory of a library's filesystem. Its path there has no trailing slash.

    Calls of asynchronous libraries are cancelled with the request. Others run to their end in their thread.
    """

    def __init__(
        self, filesystem: AbstractFileSystem, directory: str, stall_seconds: float = STALL_SECONDS
    ) -> None:
        self._filesystem: Any = filesystem
        self._directory = directory
        self._stall_seconds = stall_seconds

    @override
    def read(self, path: str, start: int, end: int) -> bytes:
        try:
            return bytes(self._ask("cat_file", self._place(path), start=start, end=end))
        except Exception as error:
            # An object store refuses a range that begins at the end of a file; in an empty file, every range.
            if is_behind_the_end(error):
                return b""
            raise

    @override
    def read_many(
        self, ranges: Sequence[tuple[str, int, int]], calls: asyncio.Semaphore
    ) -> Sequence[Attempt[bytes]] | None:
        if self._coroutine("cat_file") is None:
            return None

        # All on one event loop: a waiting thread for each would cost more than the calls.
        async def attempt(path: str, start: int, end: int) -> Attempt[bytes]:
            async with calls:
                began = time.perf_counter()
                try:
                    content = await self._call("cat_file", self._place(path), start=start, end=end)
                except Exception as error:  # noqa: BLE001 - the code that retries decides
                    seconds = time.perf_counter() - began
                    return (
                        Attempt(seconds, b"") if is_behind_the_end(error) else Attempt(seconds, error=error)
                    )
                return Attempt(time.perf_counter() - began, content)

        async def attempts() -> list[Attempt[bytes]]:
            return await asyncio.gather(*(attempt(*each) for each in ranges))

        return self._wait_for(attempts())

    @override
    def entries(self, path: str) -> list[tuple[str, bool]]:
        return [(name, entry["type"] == "directory") for name, entry in self._list(path)]

    @override
    def files(self, path: str) -> list[StoredFile]:
        return [
            StoredFile(name, int(entry.get("size") or 0), _modified_at(entry))
            for name, entry in self._list(path)
            if entry["type"] != "directory"
        ]

    def _list(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        place = self._place(path)
        listed = self._ask("ls", place, detail=True)
        paths = [(str(entry["name"]).strip("/"), entry) for entry in listed]
        # An object store may also list the directory's own marker object.
        parent = f"{place.strip('/')}/".removeprefix("/")
        return [(path.removeprefix(parent), entry) for path, entry in paths if path.startswith(parent)]

    @override
    def size(self, path: str) -> int:
        return int(self._ask("info", self._place(path)).get("size") or 0)

    @override
    def has_root(self) -> bool:
        return bool(self._ask("exists", self._place("").strip("/").partition("/")[0]))

    @override
    def create(self, path: str, content: bytes) -> bool:
        method = self._coroutine("pipe_file") or self._filesystem.pipe_file
        parameters = inspect.signature(method).parameters
        if "mode" in parameters:
            condition: dict[str, object] = {"mode": "create"}
        elif "overwrite" in parameters:
            # adlfs's name for it.
            condition = {"overwrite": False}
        else:
            name = type(self._filesystem).__name__
            raise SettingsError(
                f"{self._directory} cannot be committed to: its library ({name}) has no way to create a file "
                f"only if there is none"
            )
        try:
            self._ask("pipe_file", self._place(path), content, **condition)
        except FileExistsError:
            return False
        except Exception as error:
            if _PRECONDITION_FAILED in failure_of(error):
                return False
            raise
        return True

    @override
    def replace(self, path: str, content: bytes) -> None:
        self._ask("pipe_file", self._place(path), content)

    @override
    def delete(self, path: str) -> None:
        self._ask("rm_file", self._place(path))

    def _place(self, path: str) -> str:
        place = f"{self._directory}/{path}" if path else self._directory or "/"
        if len(place.partition("/")[2].encode(errors="surrogatepass")) > _LONGEST_KEY:
            raise FileMissingError(f"there is no file {path}: its name is too long", path=path)
        return place

    def _coroutine(self, method: str) -> Any:
        coroutine = getattr(self._filesystem, f"_{method}", None)
        return coroutine if self._filesystem.async_impl and inspect.iscoroutinefunction(coroutine) else None

    async def _call(self, method: str, place: str, *arguments: object, **options: Any) -> Any:
        seconds = None
        if method == "cat_file":
            seconds = read_seconds(self._stall_seconds, options["end"] - options["start"])
        elif method in _SHORT_ANSWERS:
            seconds = read_seconds(self._stall_seconds, 0)
        async with asyncio.timeout(seconds):
            return await self._coroutine(method)(place, *arguments, **options)

    def _ask(self, method: str, place: str, *arguments: object, **options: object) -> Any:
        """Call a method of the filesystem (by its blocking name: ``cat_file``), while the request lasts."""
        if self._coroutine(method) is None:
            return getattr(self._filesystem, method)(place, *arguments, **options)
        return self._wait_for(self._call(method, place, *arguments, **options))

    def _wait_for(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        in_flight = asyncio.run_coroutine_threadsafe(work, self._filesystem.loop)
        try:
            return wait_for(in_flight)
        finally:
            in_flight.cancel()


def read_seconds(stall_seconds: float, size: int) -> float:
    """Return the time limit of a read: two stalls, and its size at the lowest rate."""
    return 2 * stall_seconds + size / _LEAST_BYTES_PER_SECOND


class HadoopStore(LibraryStore):
    """A directory of one of Hadoop's filesystems."""

    @override
    def read(self, path: str, start: int, end: int) -> bytes:
        with self._filesystem.client.read(self._place(path)) as file:
            # The library fails for ranges beyond the end.
            end = min(end, len(file))
            content: bytes = file.read_range(start, end - start) if start < end else b""
        return content

    @override
    def has_root(self) -> bool:
        return bool(self._ask("exists", self._place("")))

    @override
    def create(self, path: str, content: bytes) -> bool:
        # As the engine commits: of several renames to one name, the name node lets one succeed.
        place = self._place(path)
        directory, _, name = place.rpartition("/")
        draft = f"{directory}/.{name}.{secrets.token_hex(8)}.tmp"
        self._ask("pipe_file", draft, content)
        try:
            self._filesystem.client.rename(draft, place, False)  # noqa: FBT003 - positional in the library
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._ask("rm_file", draft)
        return True


def open_filesystem(
    location: str, options: Mapping[str, Any], stall_seconds: float = STALL_SECONDS
) -> AbstractFileSystem:
    """Open the filesystem of a normalized URL.

    Parts of the URL, such as host and user, override the settings here, and ``options`` override both. Raises
    ValueError for an unknown protocol or option, ImportError if the library is not installed, OSError for an
    unreadable file that options or environment name.
    """
    protocol = location.partition(":")[0]
    if protocol in HADOOP and find_spec("hdfs_native") is None:
        raise ImportError(
            "the package hdfs-native is not installed: install it, or the extra hdfs, and name the directory "
            "of core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR"
        )
    library = fsspec.get_filesystem_class(protocol)
    defaults = _options(protocol, stall_seconds)
    if library.async_impl:
        defaults["loop"] = event_loop()
    url_options = library._get_kwargs_from_urls(location)  # noqa: SLF001 - fsspec's way
    filesystem = fsspec.filesystem(protocol, **{**defaults, **url_options, **options})
    if _LIBRARIES.get(protocol) == "azure":
        _check_account(filesystem, location)
    _set_up(filesystem, protocol, stall_seconds)
    return filesystem


def _options(protocol: str, stall_seconds: float) -> dict[str, Any]:
    """Return the options of a filesystem of a known library. Return none for other filesystems."""
    if protocol in HADOOP:
        # One failover to the active name node; by default the library tries for minutes.
        return {"dfs.client.failover.max.attempts": "1"}
    library = _LIBRARIES.get(protocol)
    if library is None:
        return {}
    # Warehouses of one store share no connections; a cached listing would hide the newest snapshot.
    common: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    match library:
        case "gcs":
            return common | {"requests_timeout": _stalls(stall_seconds)}
        case "http":
            return common | {"client_kwargs": {"timeout": _stalls(stall_seconds)}}
        case _:
            return common


def _set_up(filesystem: AbstractFileSystem, protocol: str, stall_seconds: float) -> None:
    """Patch settings that the library has no option for."""
    match _LIBRARIES.get(protocol):
        case "gcs":
            request = inspect.unwrap(type(filesystem)._request)  # noqa: SLF001 - without the retrying wrapper
            filesystem._request = MethodType(request, filesystem)  # noqa: SLF001
        case "azure":
            client = filesystem.service_client
            client._config.retry_policy.total_retries = 0  # noqa: SLF001 - otherwise only an option per call
            transport = client._pipeline._transport.connection_config  # noqa: SLF001 - no option
            transport.timeout = transport.read_timeout = stall_seconds
        case "oss":
            open_bucket, call = filesystem._get_bucket, filesystem._call_oss  # noqa: SLF001 - no option
            filesystem._get_bucket = lambda name, _=None: open_bucket(name, stall_seconds)  # noqa: SLF001
            filesystem._call_oss = lambda method, *arguments, **options: call(  # noqa: SLF001
                method,
                *arguments,
                retry=1,
                **(options | {"max_retries": 1} if method.endswith("Iterator") else options),
            )


def _stalls(stall_seconds: float) -> object:
    # aiohttp is installed with the libraries that need this.
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(total=None, sock_connect=stall_seconds, sock_read=stall_seconds)


def _check_account(filesystem: AbstractFileSystem, location: str) -> None:
    """Refuse environment variables that name another account than the URL: the library prefers them."""
    _, at, host = location.partition("://")[2].partition("/")[0].rpartition("@")
    named, configured = host.partition(".")[0].lower(), filesystem.service_client.account_name
    if at and configured not in (None, named):
        raise ValueError(
            f"the URL names the account {named}, and AZURE_STORAGE_CONNECTION_STRING or "
            f"AZURE_STORAGE_ACCOUNT_NAME the account {configured}: correct one of them"
        )


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Start the loop of all asynchronous libraries: uvloop if installed, otherwise fsspec's own.

    Each answer of obstore wakes the loop from another thread that holds the GIL, so its speed matters.
    """
    if find_spec("uvloop") is None:
        return get_loop()  # type: ignore[no-any-return]
    import uvloop  # noqa: PLC0415 - it comes with the extra `s3`

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    threading.Thread(target=loop.run_forever, name="storage calls", daemon=True).start()
    return loop


def _modified_at(entry: Mapping[str, Any]) -> dt.datetime | None:
    written_at = next((entry[name] for name in _TIME_NAMES if entry.get(name) is not None), None)
    if isinstance(written_at, str):
        written_at = dt.datetime.fromisoformat(written_at)
    if isinstance(written_at, (int, float)):
        return dt.datetime.fromtimestamp(written_at, dt.UTC)
    if isinstance(written_at, dt.datetime):
        return written_at if written_at.tzinfo else written_at.replace(tzinfo=dt.UTC)
    return None
