"""Places that a path or a URI may name.

A path is relative to the warehouse (``db.db/t/snapshot/LATEST``) or an absolute URI, which metadata may hold
for files outside their table (``s3://bucket/x``, ``file:/x``). Both are taken literally: ``%2F`` in a
partition directory is part of its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.errors import PathNotAllowedError, SettingsError
from app.storage.stores.local_files import LocalFiles
from app.storage.stores.store import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_MAPPED = re.compile(r"=(?=[A-Za-z][A-Za-z0-9+.-]*:/)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CREDENTIALS = re.compile(r"://[^/@:\s]*:[^/@\s]*@")
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file"}


class Root(NamedTuple):
    """A directory that may be read, with everything below it."""

    uri: str  # In normal form, ending in a slash; paths below it start with it.
    store: Store


@dataclass(frozen=True, slots=True)
class Roots:
    """The root of a warehouse, and those of external files that its metadata may name."""

    warehouse: str
    own: Root
    external: tuple[Root, ...]

    @classmethod
    def open(
        cls, warehouse: str, url: str, allow_external: Sequence[str], open_store: Callable[[str], Store]
    ) -> Roots:
        """Open the root at ``url``, and external ones: ``URI``, or for moved trees ``URI=LOCATION``.

        Raises SettingsError if a location cannot be opened. Raises PathNotAllowedError for ``..``, ``.`` or
        empty segments.
        """

        def root(known_as: str, location: str) -> Root:
            place, uri = normal_uri(location), normal_uri(known_as)
            try:
                store = open_store(place)
            except (ValueError, ImportError, OSError) as error:
                raise SettingsError(f"cannot open {location}: {error}") from error
            return Root(uri if uri.endswith("/") else f"{uri}/", store)

        own = root(url, url)
        if isinstance(own.store, LocalFiles):
            own.store.has_databases = True
        parts = [_MAPPED.split(allowed, maxsplit=1) for allowed in allow_external]
        return cls(warehouse, own, tuple(root(each[0], each[-1]) for each in parts))

    @property
    def are_local(self) -> bool:
        """True if all files are on this machine."""
        return all(root.store.is_local for root in (self.own, *self.external))

    def locate(self, path: str) -> tuple[Store, str]:
        """Return the store that holds ``path``, and the path within it."""
        if not is_absolute_uri(path):
            return self.own.store, check_segments(path)
        uri = normal_uri(path)
        for root in (self.own, *self.external):
            if uri.startswith(root.uri) and uri != root.uri:
                return root.store, uri.removeprefix(root.uri)
        raise PathNotAllowedError(
            f"{path} is outside warehouse {self.warehouse!r}; the operator can allow its root with "
            f"--allow-external URL or PAIMON_INDEX_ALLOW_EXTERNAL",
            path=path,
        )


def without_credentials(text: str, mark: str = "") -> str:
    """Replace user and password in URLs by ``mark``.

    A user without a password stays: it may be part of the place, as the container in
    ``abfss://container@account/``.
    """
    return _CREDENTIALS.sub(f"://{mark}", text)


def is_absolute_uri(path: str) -> bool:
    """Return True if ``path`` is a URI and not a path within the warehouse."""
    return _SCHEME.match(path) is not None


def normal_uri(location: str) -> str:
    """Spell a place one way: ``/x`` and ``file:/x`` become ``file:///x``, ``s3a:`` becomes ``s3:``.

    Raises PathNotAllowedError for ``..``, ``.`` or empty segments, and for a file on another host.
    """
    parts = _SCHEME.match(location)
    if parts is None:
        return f"file://{os.path.abspath(location)}"  # noqa: PTH100 - text in, text out
    scheme = parts.group(1).lower()
    scheme = _SCHEME_ALIASES.get(scheme, scheme)
    rest = location[parts.end() :]
    rest = rest.removeprefix("//")
    if scheme == "file":
        rest = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
        if rest and not rest.startswith("/"):
            # The engine drops the host, so it would read another directory than this one.
            host = rest.partition("/")[0]
            place, named = without_credentials(location), "a user" if "@" in host else f"a host, {host!r}"
            raise PathNotAllowedError(
                f"{place!r} names {named}: write file:///path, with three slashes", path=place
            )
    path = rest.removeprefix("/").rstrip("/")
    if path:
        check_segments(path)
    return f"{scheme}://{'/' if scheme == 'file' else ''}{path}"


def check_segments(path: str) -> str:
    """Return ``path`` if it can only name something below its start.

    Raises PathNotAllowedError if it is empty or absolute, or has ``..``, ``.``, empty segments or control
    characters.
    """
    if _CONTROL.search(path):
        raise PathNotAllowedError("control characters are not allowed in paths", path=path)
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise PathNotAllowedError(
            f"{path!r} must be relative, without empty segments, '.' and '..'", path=path
        )
    return path
