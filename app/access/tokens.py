"""Tokens: their rights, and the look-up of a secret.

A tokens file is YAML (JSON is YAML, too)::

    tokens:
      - name: spark                    # shown in logs; not secret
        sha256: "9f86d081884c7d65..."  # of the secret, 64 hexadecimal digits
        role: reader                   # or admin
        warehouses: [main]             # ["*"] for all
        databases: [sales]             # optional; absent: all databases of these warehouses
        expires: 2027-06-30T00:00:00Z  # optional

Only digests are stored. A plain SHA-256 is enough, since a secret has 256 random bits and cannot be guessed.

Without tokens, the service answers callers on its own machine alone. :func:`is_loopback` recognizes a host
that nothing else reaches.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from app.errors import SettingsError
from app.storage.stores import local_files

EVERYTHING: Final = "*"
"""Name that stands for every warehouse."""

SECRET_PREFIX: Final = "pix_"  # noqa: S105 - what all secrets begin with
"""Prefix that lets scanners of source code and logs recognize a secret."""

_SECRET_BYTES: Final = 32
_LOOKED_UP: Final = 8
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")

_log = logging.getLogger("paimon_index")

_SECONDS: Final = 1.0
_STABLE_READS: Final = 3
_MOST_BYTES: Final = 1 << 20
_STOP_SECONDS: Final = 5.0


class Role(StrEnum):
    """Rights of a caller. Each role may read."""

    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller's name, and the tables that they may see."""

    name: str | None  # Of the token; None if the service has no tokens.
    role: Role  # An admin may also do what concerns every caller, such as clearing caches.
    warehouses: frozenset[str] | None = None  # None for all.
    databases: frozenset[str] | None = None  # Of these warehouses; None for all.
    expires: float | None = None  # Seconds since 1970; None for never.

    def may_use(self, warehouse: str, database: str | None = None) -> bool:
        """Return True if the caller may read a warehouse, or one database of it."""
        if self.warehouses is not None and warehouse not in self.warehouses:
            return False
        return self.databases is None or database is None or database in self.databases

    @property
    def is_expired(self) -> bool:
        """True after the token's expiry."""
        return self.expires is not None and time.time() >= self.expires


EVERYBODY: Final = Caller(None, Role.ADMIN)
"""The caller of a service without tokens."""


class TokenBook:
    """The tokens of one file, by the SHA-256 digest of their secrets."""

    def __init__(self, callers: Mapping[bytes, Caller]) -> None:
        self._callers: dict[bytes, list[tuple[bytes, Caller]]] = {}
        for digest, caller in callers.items():
            self._callers.setdefault(digest[:_LOOKED_UP], []).append((digest, caller))

    def __len__(self) -> int:
        return sum(map(len, self._callers.values()))

    @classmethod
    def read(cls, content: bytes) -> TokenBook:
        """Read the tokens of a file.

        Raises SettingsError if it is not a list of tokens. The message quotes names only, since any other
        member may be a secret in the wrong place.
        """
        callers: dict[bytes, Caller] = {}
        names: set[str] = set()
        for at, entry in enumerate(_entries(content)):
            place = f"token {at}"
            if not isinstance(entry, dict):
                raise SettingsError(f"{place} is not an object with name, sha256, role and warehouses")
            try:
                token = _Token.model_validate(entry)
            except ValidationError as error:
                raise SettingsError(f"{place}: {_explain(error)}") from None
            digest = bytes.fromhex(token.sha256)
            if token.name in names:
                raise SettingsError(f"{place}: two tokens are named {token.name!r}")
            if digest in callers:
                raise SettingsError(f"{place}: {token.name!r} and {callers[digest].name!r} share a secret")
            names.add(token.name)
            callers[digest] = token.caller()
        return cls(callers)

    def find(self, secret: bytes) -> Caller | None:
        """Return the caller of a secret, possibly expired. Return None if there is none."""
        sought = hashlib.sha256(secret).digest()
        # The look-up by first bytes may leak timing, but callers cannot choose the digest of what they send.
        for digest, caller in self._callers.get(sought[:_LOOKED_UP], ()):
            if hmac.compare_digest(digest, sought):
                return caller
        return None

    def unknown_warehouses(self, configured: Collection[str]) -> list[str]:
        """List warehouses that tokens name and nobody configured, sorted."""
        callers = (caller for alike in self._callers.values() for _, caller in alike)
        named = {name for caller in callers for name in caller.warehouses or ()}
        return sorted(named - set(configured))


def new_secret() -> str:
    """Make a random secret."""
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def stored_digest(secret: str) -> str:
    """Return the digest that a tokens file has for a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


class _Token(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str
    sha256: str
    role: Role
    warehouses: Annotated[list[str], Field(min_length=1)]
    databases: Annotated[list[str], Field(min_length=1)] | None = None
    expires: dt.datetime | None = None

    @field_validator("name", "sha256")
    @classmethod
    def _check_text(cls, value: str, info: ValidationInfo) -> str:
        if info.field_name == "name" and not _NAME.fullmatch(value):
            raise ValueError("expected up to 128 letters, digits, '.', '_', '@' and '-'")
        if info.field_name == "sha256" and not _DIGEST.fullmatch(value):
            raise ValueError(
                "expected 64 hexadecimal digits, the SHA-256 of the secret that paimon-index token new prints"
            )
        return value

    def caller(self) -> Caller:
        expires = self.expires
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=dt.UTC)
        return Caller(
            self.name,
            self.role,
            None if EVERYTHING in self.warehouses else frozenset(self.warehouses),
            None if self.databases is None else frozenset(self.databases),
            None if expires is None else expires.timestamp(),
        )


def _entries(content: bytes) -> list[object]:
    try:
        # The C loader is faster, but deep nesting overflows its stack.
        document = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" at line {mark.line + 1}"
        raise SettingsError(f"the file is neither YAML nor JSON{line}") from None
    entries = document.get("tokens") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(document) != 1:
        raise SettingsError("expected an object with one member, tokens, which is a list")
    return entries


def _explain(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # The name of an unknown member may be a secret, too, so it is not quoted.
    names = [str(part) for part in fault["loc"] if part in _Token.model_fields or isinstance(part, int)]
    place = ".".join(names) or f"a member that is none of {', '.join(_Token.model_fields)}"
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}"


def is_loopback(host: str) -> bool:
    """Return True if all addresses of a host name or number are loopback. False if it is unknown."""
    written = ip_address(host)
    if written is not None:
        return written.is_loopback
    try:
        places = socket.getaddrinfo(host or None, None, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    addresses = [ip_address(str(place[0])) for *_, place in places]
    return all(address is not None and address.is_loopback for address in addresses)


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address, an IPv4 address in IPv6 form as IPv4. Return None for a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class TokenFile:
    """Tokens of a file by their secrets. Follows changes of the file once started.

    ``warehouses``: configured names. The log warns of tokens for others. Raises SettingsError if the file
    cannot be read, or is not a list of tokens.
    """

    def __init__(self, path: str, warehouses: Collection[str] = ()) -> None:
        self._path = Path(path)
        self._warehouses = warehouses
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="paimon-index-tokens", daemon=True)
        self._seen = self._read()
        self._book = self._open(self._seen)
        # Error and content of the last read, and the number of equal reads in a row.
        self._last_read = "", self._seen
        self._equal_reads = 1

    def __len__(self) -> int:
        return len(self._book)

    def find(self, secret: bytes) -> Caller | None:
        """Return the caller of a secret, possibly expired. Return None if there is none."""
        return self._book.find(secret)

    def start(self) -> None:
        """Start following the file, in a thread, so that no request waits for it."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following the file."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def refresh(self) -> None:
        """Read the file, and replace the tokens once its content was stable and usable."""
        fault, content = "", b""
        try:
            # Compares contents: this notices a file written in place, one moved over it, and a Kubernetes
            # Secret whose symbolic link points to a new directory.
            content = self._read()
        except SettingsError as error:
            fault = str(error)
        read = fault, content
        self._equal_reads = self._equal_reads + 1 if read == self._last_read else 1
        self._last_read = read
        # Half of a file that is being written may be a valid list of fewer tokens, so a change counts after
        # several equal reads. Later equal reads do not count it again.
        if self._equal_reads != _STABLE_READS or content == self._seen:
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
