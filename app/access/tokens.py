"""Tokens: what each allows, and how a secret is told from all others.

A tokens file is YAML (JSON is YAML, too)::

    tokens:
      - name: spark                    # stands in logs; not secret
        sha256: "9f86d081884c7d65..."  # of the secret, 64 hexadecimal digits
        role: reader                   # or admin
        warehouses: [main]             # ["*"] for all
        databases: [sales]             # optional; absent: all databases of these warehouses
        expires: 2027-06-30T00:00:00Z  # optional

Only digests are stored. A plain SHA-256 is enough, since a secret has 256 random bits and cannot be guessed.

A secret is looked up by the first bytes of its digest; the whole digest is then compared in constant time.
How long the look-up takes may depend on those bytes, but callers cannot choose the digest of what they send,
so the time tells them nothing that helps to find a secret.

A thread reads the file again every second, so that no request waits for it, and compares it with what it read
before: that notices a file written in place, a file moved over it, and a Kubernetes Secret whose symbolic
link points to a new directory. A change is taken over when the file was the same three times in a row: one
that is written in place is half there for a while, and half of the tokens may be a sound list, too. A new
file that cannot be used changes nothing: the tokens read before stay in force, and the log has an error.

Without tokens a caller's address decides: :func:`is_loopback` tells those that only this machine reaches.
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
"""Stands for every warehouse."""

SECRET_PREFIX: Final = "pix_"  # noqa: S105 - what all secrets begin with
"""By this, scanners of source code and logs know a secret."""

_SECRET_BYTES: Final = 32
_LOOKED_UP: Final = 8
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")


class Role(StrEnum):
    """What a token may do beside reading what it may see."""

    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what they may see.

    Attributes:
        name: the token's; None where the service does not ask for tokens.
        role: an admin may also do what concerns every caller, such as clearing caches.
        warehouses: None for all.
        databases: of these warehouses; None for all.
        expires: seconds since 1970; None for never.
    """

    name: str | None
    role: Role
    warehouses: frozenset[str] | None = None
    databases: frozenset[str] | None = None
    expires: float | None = None

    def may_use(self, warehouse: str, database: str | None = None) -> bool:
        """Whether the caller may read a warehouse, or one database of it."""
        if self.warehouses is not None and warehouse not in self.warehouses:
            return False
        return self.databases is None or database is None or database in self.databases

    @property
    def is_expired(self) -> bool:
        """Whether the token's time is over."""
        return self.expires is not None and time.time() >= self.expires


EVERYBODY: Final = Caller(None, Role.ADMIN)
"""The caller of a service that asks for no tokens."""


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
        """The tokens that a file lists.

        Raises:
            SettingsError: the content is no list of tokens. The message quotes nothing of it but names, since
                somebody may have put a secret there.
        """
        callers: dict[bytes, Caller] = {}
        names: set[str] = set()
        for at, entry in enumerate(_entries(content)):
            place = f"token {at}"
            if not isinstance(entry, dict):
                raise SettingsError(f"{place} is no object with name, sha256, role and warehouses")
            try:
                token = _Token.model_validate(entry)
            except ValidationError as error:
                raise SettingsError(f"{place}: {_explain(error)}") from None
            digest = bytes.fromhex(token.sha256)
            if token.name in names:
                raise SettingsError(f"{place}: there are two tokens of the name {token.name!r}")
            if digest in callers:
                raise SettingsError(f"{place}: {token.name!r} and {callers[digest].name!r} have one secret")
            names.add(token.name)
            callers[digest] = token.caller()
        return cls(callers)

    def find(self, secret: bytes) -> Caller | None:
        """The caller whose secret this is, though it may have expired; None for anything else."""
        given = hashlib.sha256(secret).digest()
        for digest, caller in self._callers.get(given[:_LOOKED_UP], ()):
            if hmac.compare_digest(digest, given):
                return caller
        return None

    def unknown_warehouses(self, known: Collection[str]) -> list[str]:
        """Warehouses that tokens name and nobody configured, sorted."""
        callers = (caller for alike in self._callers.values() for _, caller in alike)
        named = {name for caller in callers for name in caller.warehouses or ()}
        return sorted(named - set(known))


def new_secret() -> str:
    """A secret that nobody can guess."""
    return SECRET_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def stored_digest(secret: str) -> str:
    """What a tokens file holds of a secret."""
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
        # The loader that is written in C is faster, but deep nesting overflows its stack.
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
    # The name of an unknown member may be anything, a secret as well.
    known = [str(part) for part in fault["loc"] if part in _Token.model_fields or isinstance(part, int)]
    place = ".".join(known) or f"a member that is none of {', '.join(_Token.model_fields)}"
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}"


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host, a name or a number, are loopback; False for an unknown name."""
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
    """The address that a text writes, an IPv4 address in IPv6 form as IPv4; None for a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


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
