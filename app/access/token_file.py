"""The tokens file, followed while the service runs.

A thread of its own reads the file again every second, so that no request waits for it, and compares it with
what it read before. That notices every change, however it was made: a file written in place, a file moved
over it, a Kubernetes Secret whose symbolic link points to a new directory.

A change is taken over when the file was the same three times in a row: a file that is written in place is
half there for a while, and half of the tokens may be a sound list, too.

A new file that cannot be used changes nothing: the tokens read before stay in force, and the log has an
error.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Final

from app.access.tokens import Caller, TokenBook
from app.errors import SettingsError
from app.storage.stores import local_files

_log = logging.getLogger("paimon_index")

_SECONDS: Final = 1.0
_LOOKS: Final = 3
_MOST_BYTES: Final = 1 << 20
_STOP_SECONDS: Final = 5.0


class TokenFile:
    """Tokens by their secrets, as the file lists them now.

    Args:
        path: the file; it has to be there and sound at first.
        warehouses: names that tokens may use; a token that names another one is told in the log.

    Raises:
        SettingsError: the file cannot be read, or is no list of tokens.
    """

    def __init__(self, path: str, warehouses: Collection[str] = ()) -> None:
        self._path = Path(path)
        self._warehouses = warehouses
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="paimon-index-tokens", daemon=True)
        self._seen = self._read()
        self._book = self._open(self._seen)
        # Why the file could not be read at the last look, and what it held; and how often in a row.
        self._last_look = "", self._seen
        self._looks = 1

    def __len__(self) -> int:
        return len(self._book)

    def find(self, secret: bytes) -> Caller | None:
        """The caller of this secret, though it may have expired; None for anything else."""
        return self._book.find(secret)

    def start(self) -> None:
        """Begins to follow the file."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the following."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def refresh(self) -> None:
        """Looks at the file, and takes over what it lists once it was still, if it can be used."""
        fault, content = "", b""
        try:
            content = self._read()
        except SettingsError as error:
            fault = str(error)
        look = fault, content
        self._looks = self._looks + 1 if look == self._last_look else 1
        self._last_look = look
        # Once for each change, not every second.
        if self._looks != _LOOKS or content == self._seen:
            return
        try:
            self._book = self._book if fault else self._open(content)
        except SettingsError as error:
            fault = str(error)
        if fault:
            _log.error("%s; the tokens read before stay in force", fault)
        else:
            self._seen = content
            _log.info("the tokens file changed: %d tokens are in force", len(self._book))

    def _follow(self) -> None:
        while not self._stopped.wait(_SECONDS):
            self.refresh()

    def _open(self, content: bytes) -> TokenBook:
        try:
            book = TokenBook.read(content)
        except SettingsError as error:
            raise SettingsError(f"tokens file {self._path}: {error}") from None
        unknown = book.unknown_warehouses(self._warehouses)
        if unknown:
            _log.warning("the tokens file names warehouses that are not configured: %s", ", ".join(unknown))
        return book

    def _read(self) -> bytes:
        try:
            content = local_files.content(self._path, _MOST_BYTES + 1)
        except OSError as error:
            raise SettingsError(f"tokens file {self._path} cannot be read: {error.strerror}") from None
        if len(content) > _MOST_BYTES:
            raise SettingsError(f"tokens file {self._path} is larger than {_MOST_BYTES} bytes")
        return content
