"""Every exception this project raises, drawn once.

::

    PaimonIndexError
    ├── CorruptFileError            bytes are not what their format says
    │   ├── CorruptIndexError       a file index, deletion vector file or hash index
    │   └── CorruptMetadataError    a snapshot, schema, manifest list, manifest or index manifest
    ├── UnsupportedFormatError      a well-formed file of a version or kind that this release cannot read
    ├── RequestError                the caller erred
    │   ├── FilterError             a filter, literal, key or partition does not fit the table
    │   ├── IndexWriteError         a column, type or value that an index cannot hold
    │   ├── LimitExceededError      the request is larger than the operator allows
    │   ├── PageTokenError          a page token that is forged or belongs to another request
    │   └── CommitConflictError     changes that do not fit what others have committed meanwhile
    ├── NotFoundError               warehouse, database, table, snapshot, tag, branch or file
    │   ├── UnknownPlaceError       a warehouse or database; which there are is not for everybody to know
    │   └── SnapshotExpiredError    the snapshot went away while it was read
    ├── PathNotAllowedError         a path leaves its warehouse, or lies outside the external roots
    ├── JobError                    a job cannot be done; its table is as it was
    ├── SettingsError               the operator's settings cannot be used; nothing starts
    ├── OverloadedError             more is asked for at once than the process is meant for
    │   ├── MemoryShortError        the process would leave its memory limit
    │   └── BusyError               as many requests as it may work on are under way
    └── StorageError                storage failed after retries
        ├── FileMissingError        storage says that the file is not there
        ├── UncertainCommitError    nobody knows whether a snapshot was made
        └── DeadlineExceededError   the request's time is used up
            └── RequestCancelledError   its caller went away, so no time is left for it

Decoders know bytes, not paths: they raise with an offset, and whoever read the file adds the path with
:meth:`CorruptFileError.at`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from app.suggestions import hint


class PaimonIndexError(Exception):
    """Root of every exception that this project raises on purpose."""


class CorruptFileError(PaimonIndexError):
    """Bytes that are not what their format says.

    Attributes:
        expectation: what should have been there and what was found instead.
        offset: byte offset of the fact inside the file or payload, if one place is to blame.
        path: the file, once somebody who knows it has added it.
    """

    def __init__(self, expectation: str, *, offset: int | None = None, path: str | None = None) -> None:
        self.expectation = expectation
        self.offset = offset
        self.path = path
        super().__init__(expectation)

    def at(self, path: str, base_offset: int = 0) -> Self:
        """The same error with the file's path, its offset moved by ``base_offset`` bytes."""
        offset = None if self.offset is None else self.offset + base_offset
        return type(self)(self.expectation, offset=offset, path=self.path or path)

    def __str__(self) -> str:
        where = self.path or "<bytes>"
        place = "" if self.offset is None else f" at byte {self.offset}"
        return f"{where}{place}: {self.expectation}"


class CorruptIndexError(CorruptFileError):
    """A file index, deletion vector file or hash index that cannot be decoded."""


class CorruptMetadataError(CorruptFileError):
    """A snapshot, schema, manifest list, manifest or index manifest that cannot be decoded."""


class UnsupportedFormatError(PaimonIndexError):
    """A well-formed file of a version or kind that this release cannot read."""


class RequestError(PaimonIndexError):
    """The caller erred; the message says how to ask instead."""


class FilterError(RequestError):
    """A filter, literal, key or partition that does not fit the table.

    Attributes:
        position: 0-based character offset in the filter's text, if it has one.
    """

    def __init__(self, message: str, *, column: str | None = None, position: int | None = None) -> None:
        self.column = column
        self.position = position
        super().__init__(message)


class IndexWriteError(RequestError):
    """A column, type or value that an index cannot hold; nothing was written.

    Attributes:
        row: its 0-based row, if one value is to blame.
    """

    def __init__(self, message: str, *, column: str, row: int | None = None) -> None:
        self.column = column
        self.row = row
        place = f"column {column!r}" if row is None else f"column {column!r}, row {row}"
        super().__init__(f"{place}: {message}")


class LimitExceededError(RequestError):
    """A request larger than the operator allows."""

    def __init__(self, message: str, *, limit: int) -> None:
        self.limit = limit
        super().__init__(message)


class PageTokenError(RequestError):
    """A page token that is forged, damaged or belongs to another request."""


class CommitConflictError(RequestError):
    """Changes that do not fit what is committed; made again from the latest snapshot, they may."""


class NotFoundError(PaimonIndexError):
    """A warehouse, database, table, snapshot, tag, branch or file that does not exist."""


class UnknownPlaceError(NotFoundError):
    """A warehouse or database that does not exist.

    The message names none of those that do: whoever answers adds, by :meth:`naming`, those that the caller
    may know of.

    Attributes:
        warehouse: of a database, where it is not.
    """

    def __init__(self, name: str, known: Sequence[str], *, warehouse: str | None = None) -> None:
        self.name = name
        self.known = known
        self.warehouse = warehouse
        super().__init__(f"there is no {'warehouse' if warehouse is None else 'database'} {name!r:.200}")

    def naming(self, names: Sequence[str]) -> str:
        """The message with some of the names that there are."""
        what = "warehouses" if self.warehouse is None else "databases"
        # That none is known to the caller does not tell that there is none.
        return f"{self}{hint(self.name, names, what=what)}" if names else str(self)


class SnapshotExpiredError(NotFoundError):
    """A snapshot whose files went away while they were read; asking again reads a newer one."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(message)


class PathNotAllowedError(PaimonIndexError):
    """A path that leaves its warehouse or lies outside the allowed external roots."""

    def __init__(self, message: str, *, path: str) -> None:
        self.path = path
        super().__init__(message)


class JobError(PaimonIndexError):
    """A job that cannot be done; the message says what failed. Its table is as it was."""


class SettingsError(PaimonIndexError):
    """Settings that cannot be used; the message has one line per setting."""


class OverloadedError(PaimonIndexError):
    """More is asked for at once than this process is meant for; asked again later, it may answer."""


class MemoryShortError(OverloadedError):
    """What is asked for needs memory that the process may not take now."""


class BusyError(OverloadedError):
    """As many requests as the process may work on are under way.

    Attributes:
        pause_seconds: until it may have answered those who wait now, by the pace of late.
    """

    def __init__(self, message: str, *, limit: int, pause_seconds: int) -> None:
        self.limit = limit
        self.pause_seconds = pause_seconds
        super().__init__(message)


class StorageError(PaimonIndexError):
    """Storage failed, after retries."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(message)


class FileMissingError(StorageError):
    """Storage says that the file is not there."""


class UncertainCommitError(StorageError):
    """A snapshot may have been made, or another one be built on it; the message says how to find out."""


class DeadlineExceededError(StorageError):
    """The time that the request was given is used up."""


class RequestCancelledError(DeadlineExceededError):
    """Nobody waits for the answer any more."""
