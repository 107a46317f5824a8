"""Which places a path may name.

A path is either relative to the warehouse (``db.db/t/snapshot/LATEST``) or an absolute URI, which metadata
may hold for files outside of their table (``s3://bucket/x``, ``file:/x``). Both are text taken literally:
``%2F`` in a partition directory is part of its name and never decoded.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import FileMissingError, PathNotAllowedError, SettingsError
from app.regular_files import opened
from app.storage.failures import is_behind_the_end
from app.storage.libraries import HADOOP, STALL_SECONDS, ask, open_filesystem, read_hadoop
from app.storage.object_store import ObjectStore
from app.storage.retry import Attempt
from app.work.cores import waiting

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_MAPPED = re.compile(r"=(?=[A-Za-z][A-Za-z0-9+.-]*:/)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CREDENTIALS = re.compile(r"://[^/@:\s]*:[^/@\s]*@")
_LONGEST_KEY = 1024
"""Bytes of the longest name in a bucket of S3, which refuses longer ones; other stores allow no more."""
_LONGEST_PATH = 4095
"""Bytes of the longest path on this machine; of a longer one, each part would be looked at for links."""
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file"}


@dataclass(frozen=True, slots=True)
class Root:
    """A directory that may be read, with everything below it.

    Paths below it start with ``uri``, in its normal form and ending in a slash; inside of ``filesystem`` it
    is ``directory``, without a slash at the end.
    """

    uri: str
    filesystem: Any
    directory: str

    @classmethod
    def open(
        cls,
        location: str,
        *,
        uri: str | None = None,
        options: dict[str, Any] | None = None,
        stall_seconds: float = STALL_SECONDS,
    ) -> Root:
        """A root at ``location``, known to paths as ``uri`` (``location`` itself unless given).

        Raises:
            SettingsError: there is no library for such locations.
            PathNotAllowedError: the location has ``..``, ``.`` or empty segments.
        """
        place = normal_uri(location)
        try:
            filesystem = open_filesystem(place, options or {}, stall_seconds)
        except (ValueError, ImportError, OSError) as error:
            raise SettingsError(f"cannot open {location}: {error}") from error
        if isinstance(filesystem, ObjectStore):
            directory = place.removeprefix("s3://")
        else:
            # Some filesystems want a leading slash and some none: each knows its own form.
            directory = str(filesystem._strip_protocol(place)).rstrip("/")  # noqa: SLF001 - fsspec's way
        known_as = place if uri is None else normal_uri(uri)
        return cls(known_as if known_as.endswith("/") else f"{known_as}/", filesystem, directory)

    @classmethod
    def external(
        cls, allowed: str, options: dict[str, Any] | None = None, *, stall_seconds: float = STALL_SECONDS
    ) -> Root:
        """A root from an operator's ``URI`` or ``URI=LOCATION``; the latter serves a tree that was moved."""
        parts = _MAPPED.split(allowed, maxsplit=1)
        return cls.open(parts[-1], uri=parts[0], options=options, stall_seconds=stall_seconds)

    def holds(self, uri: str) -> bool:
        """Whether a normal URI lies below this root."""
        return uri.startswith(self.uri) and uri != self.uri

    def resolve(self, relative: str) -> str:
        """The filesystem's own path of ``relative``, which :func:`check_segments` has passed.

        PathNotAllowedError: a symbolic link on the way leads out of the root, or to itself.
        """
        path = f"{self.directory}/{relative}" if relative else self.directory or "/"
        if self.is_too_long(path):
            raise FileMissingError(f"there is no file {relative}: its name is too long", path=relative)
        if self.uri_is_local:
            # A disk may hang as any other storage.
            with waiting():
                self._check_links(relative, path)
        return path

    def is_too_long(self, path: str) -> bool:
        """Whether the filesystem's own path is longer than any that there can be."""
        if len(path) * 4 <= _LONGEST_KEY:
            return False
        return _key_bytes(path) > (_LONGEST_PATH if self.uri_is_local else _LONGEST_KEY)

    def _check_links(self, relative: str, path: str) -> None:
        # Following every link from the top costs more than reading a small file, and there are hardly any.
        if not self._has_link(relative):
            return
        real, home = os.path.realpath(path), os.path.realpath(self.directory or "/")
        if os.path.commonpath((real, home)) != home:
            raise PathNotAllowedError(f"{relative!r} is a link that leads out of its root", path=relative)
        if _is_loop(path):
            raise PathNotAllowedError(f"{relative!r} is a link that leads to itself", path=relative)

    def _has_link(self, relative: str) -> bool:
        place = self.directory
        for segment in relative.split("/"):
            place = f"{place}/{segment}"
            if os.path.islink(place):  # noqa: PTH114 - text in, text out
                return True
        return False

    def read(self, path: str, start: int, end: int) -> bytes:
        """Bytes of a file that :meth:`resolve` gave the path of; fewer where the file ends before."""
        if self.uri_is_local:
            return _read_local(path, start, end)
        if self.is_hadoop:
            return read_hadoop(self.filesystem, path, start, end)
        try:
            content = self.ask("cat_file", path, start=start, end=end)
        except Exception as error:
            # An object store refuses a range that begins at the end, as that of an empty file does.
            if is_behind_the_end(error):
                return b""
            raise
        return bytes(content)

    def read_many(
        self, wanted: Sequence[tuple[str, int, int]], calls: asyncio.Semaphore
    ) -> list[Attempt[bytes] | None]:
        """What became of reading many ranges side by side; None where :meth:`read` has to be asked."""
        if not isinstance(self.filesystem, ObjectStore):
            return [None] * len(wanted)
        made = self.filesystem.read_many(wanted, calls)
        return [
            Attempt(each.seconds, b"") if each.error is not None and is_behind_the_end(each.error) else each
            for each in made
        ]

    def ask(self, method: str, path: str, **options: object) -> Any:
        """What a method of the filesystem answers for a path that :meth:`resolve` gave."""
        return ask(self.filesystem, method, path, **options)

    def read_into(self, path: str, buffer: memoryview) -> int:
        """Fills a buffer from the start of a local file; how many bytes there were, at most its length."""
        at = 0
        with opened(path) as (descriptor, _):
            while at < len(buffer) and (count := os.preadv(descriptor, [buffer[at:]], at)):
                at += count
        return at

    @property
    def uri_is_local(self) -> bool:
        """Whether the files lie on this machine, where links can lead elsewhere."""
        return "file" in self._protocols

    @property
    def is_hadoop(self) -> bool:
        """Whether the files lie in one of Hadoop's filesystems."""
        return not HADOOP.isdisjoint(self._protocols)

    @property
    def _protocols(self) -> Sequence[str]:
        protocol = self.filesystem.protocol
        return (protocol,) if isinstance(protocol, str) else protocol


class Neighbours:
    """Locates many files of few directories: each directory is checked once.

    It is made for one request and forgotten with it, since directories may be replaced by links.
    """

    def __init__(self, locate: Callable[[str], tuple[Root, str]]) -> None:
        self._locate = locate
        self._directories: dict[str, tuple[Root, str] | None] = {}

    def locate(self, path: str) -> tuple[Root, str]:
        """What ``locate`` says of a file."""
        found = self._beside(path)
        if found is None or (found[0].uri_is_local and os.path.islink(found[1])):  # noqa: PTH114 - text
            return self._locate(path)
        return found

    def read(self, path: str, start: int, end: int) -> bytes:
        """Bytes of a file, as :meth:`Root.read`."""
        found = self._beside(path)
        if found is not None and found[0].uri_is_local:
            try:
                # Asking first whether it is a link would take as long as to open it.
                return _read_local(found[1], start, end, os.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        root, place = self.locate(path)
        return root.read(place, start, end)

    def _beside(self, path: str) -> tuple[Root, str] | None:
        """Where a file lies unless it is a link; None if it has to be located by itself."""
        directory, _, name = path.rpartition("/")
        if directory not in self._directories:
            self._directories[directory] = self._locate_directory(directory)
        above = self._directories[directory]
        # Cut before its last slash, a path with an empty segment may look sound, and a URI like a path.
        misleading = directory.endswith(("/", ":")) or name in ("", ".", "..") or _CONTROL.search(name)
        if above is None or misleading:
            return None
        place = f"{above[1]}/{name}"
        return None if above[0].is_too_long(place) else (above[0], place)

    def _locate_directory(self, directory: str) -> tuple[Root, str] | None:
        try:
            return self._locate(directory)
        except PathNotAllowedError:
            # It may be a root, which is no path below a root; its files are located one by one.
            return None


def _is_loop(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - text in, text out
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _key_bytes(path: str) -> int:
    return len(path.partition("/")[2].encode(errors="surrogatepass"))


def _read_local(path: str, start: int, end: int, flags: int = 0) -> bytes:
    """As the library does, in a third of its time, which tells where files are small and many."""
    with opened(path, flags) as (descriptor, status):
        left = min(end, status.st_size) - start
        parts = []
        while left > 0 and (part := os.pread(descriptor, left, start)):
            parts.append(part)
            start += len(part)
            left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def without_credentials(text: str, mark: str = "") -> str:
    """A text in which no URL has a user with a password, but ``mark`` in their place.

    A name alone stays: it may be part of the place, as the container in ``abfss://container@account/``.
    """
    return _CREDENTIALS.sub(f"://{mark}", text)


def is_absolute_uri(path: str) -> bool:
    """Whether ``path`` is a URI rather than a path inside of the warehouse."""
    return _SCHEME.match(path) is not None


def normal_uri(location: str) -> str:
    """One spelling per place: ``/x`` and ``file:/x`` become ``file:///x``, ``s3a:`` becomes ``s3:``.

    Raises:
        PathNotAllowedError: the text is no URI or path, has ``..``, ``.`` or empty segments, or is
            that of a file on another host.
    """
    found = _SCHEME.match(location)
    if found is None:
        return f"file://{os.path.abspath(location)}"  # noqa: PTH100 - text in, text out
    scheme = found.group(1).lower()
    scheme = _SCHEME_ALIASES.get(scheme, scheme)
    rest = location[found.end() :]
    rest = rest.removeprefix("//")
    if scheme == "file":
        rest = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
        if rest and not rest.startswith("/"):
            # The engine leaves the host out, so that this would be another directory than the one it reads.
            host = rest.partition("/")[0]
            raise PathNotAllowedError(
                f"{location!r} names a host, {host!r}: write file:///path, with three slashes", path=location
            )
    path = rest.removeprefix("/").rstrip("/")
    if path:
        check_segments(path)
    return f"{scheme}://{'/' if scheme == 'file' else ''}{path}"


def check_segments(path: str) -> str:
    """``path`` itself, if it can only name something below where it starts.

    PathNotAllowedError: it is empty or absolute, or has ``..``, ``.``, empty segments or control characters.
    """
    if _CONTROL.search(path):
        raise PathNotAllowedError("control characters are not allowed in paths", path=path)
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise PathNotAllowedError(
            f"{path!r} must be relative, without empty segments, '.' and '..'", path=path
        )
    return path
