"""Options that commands share, and the service that answers them without a server."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from app.api.http import read_json
from app.errors import RequestError, SettingsError
from app.opening import create_service
from app.planning import IndexService
from app.planning.request import TableRef
from app.settings import Settings
from app.suggestions import listed

_NAMED = re.compile(r"([A-Za-z0-9._-]+)=(.+)")
_UNNAMED = "warehouse"
_TABLE_DIRECTORY = re.compile(r"(.+)/([^/]+)\.db/([^/]+)/?")
_LOCAL = "local"

WarehouseOption = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        help="name=url, a URL, a directory, or a name from the environment. Default: the only one there.",
    ),
]
AllowExternal = Annotated[
    list[str] | None,
    typer.Option("--allow-external", metavar="URL", help="Root of files outside the warehouse; repeatable."),
]

FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter", help="Condition, such as \"city = 'Wien' AND id > 5\", or Paimon predicate JSON."
    ),
]
ColumnsOption = Annotated[
    list[str] | None, typer.Option("--column", metavar="NAME=TYPE", help="Type of a column; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the service's JSON.")]


def _no_path(text: str) -> str:
    if directory := _TABLE_DIRECTORY.fullmatch(text):
        root, database, table = directory.groups()
        raise RequestError(f"{text!r} is a table's directory: give {database}.{table} --warehouse {root}")
    return text


TableArgument = Annotated[str, typer.Argument(metavar="DATABASE.TABLE", callback=_no_path)]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Expand each parameter that is a dataclass into one option per field, for typer."""
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation)
    }
    options = [parameter for name, parameter in parameters.items() if name not in groups]
    for name, group in groups.items():
        hints = get_type_hints(group, include_extras=True)
        options += [
            parameters[name].replace(name=field.name, annotation=hints[field.name], default=field.default)
            for field in fields(group)
        ]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined] # as inspect documents
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseOptions:
    """Options that choose the warehouse of a command."""

    warehouse: WarehouseOption = None
    allow_external: AllowExternal = None

    def open(self) -> Opened:
        """Open the service of the warehouse. See :meth:`Opened.warehouse_of`."""
        return Opened.warehouse_of(self.warehouse, self.allow_external)


@dataclass(frozen=True, slots=True)
class Opened:
    """A service in this process, and the command's warehouse."""

    service: IndexService
    settings: Settings
    warehouse: str

    @classmethod
    def warehouse_of(cls, option: str | None, allow_external: Sequence[str] | None = None) -> Opened:
        """Open the warehouse of ``--warehouse``."""
        external = tuple(allow_external) if allow_external else None
        configured = Settings.load(allow_external=external)
        if option is None and len(configured.warehouses) == 1:
            (option,) = configured.warehouses
        if option is None:
            raise SettingsError("--warehouse is missing: give name=url, a URL or a directory")
        if option in configured.warehouses:
            return cls(create_service(configured), configured, option)
        name, url = parse_warehouse(option)
        settings = Settings.load(allow_external=external, warehouses={name: url})
        return cls(create_service(settings), settings, name)

    @classmethod
    def local_files(cls) -> Opened:
        """Open this machine's files as a warehouse. Paths are absolute, without the first slash."""
        settings = Settings.load(warehouses={_LOCAL: "file:///"})
        return cls(create_service(settings), settings, _LOCAL)

    def table(self, name: str) -> TableRef:
        """Read ``DATABASE.TABLE``."""
        database, dot, table = name.partition(".")
        existing = self.service.tables.databases(self.warehouse) if database == self.warehouse else None
        if existing is not None and database not in existing and "." in table:
            raise RequestError(f"omit {database!r}, which names the warehouse: give {table}")
        if not dot:
            databases = listed(self.service.tables.databases(self.warehouse)) or "none"
            raise RequestError(f"{name!r} is not DATABASE.TABLE; the databases here: {databases}")
        return TableRef(self.warehouse, database, table)


def parse_warehouse(text: str) -> tuple[str, str]:
    """Split ``name=url`` into name and URL. A URL or a directory alone gets a default name."""
    named = _NAMED.fullmatch(text)
    name, url = named.groups() if named else (_UNNAMED, text)
    return name, url


def parse_columns(columns: Sequence[str] | None) -> dict[str, str]:
    """Return the type texts by column name, from ``NAME=TYPE`` options."""
    form = "NAME=TYPE, such as id=BIGINT"
    types = parse_pairs("--column", columns, form)
    for name, text in types.items():
        if not text:
            raise RequestError(f"--column takes {form}, not '{name}='")
    return types


def parse_pairs(option: str, written: Sequence[str] | None, form: str = "NAME=VALUE") -> dict[str, str]:
    """Return values by name. Raises RequestError if a text has another form, or a name is repeated."""
    pairs: dict[str, str] = {}
    for text in written or ():
        name, sign, value = map(str.strip, text.partition("="))
        if not name or not sign:
            raise RequestError(f"{option} takes {form}, not {text!r}")
        if name in pairs:
            raise RequestError(f"{option} {name} is given twice")
        pairs[name] = value
    return pairs


def parse_filter(text: str | None) -> Any:
    """Decode a filter in JSON. Return SQL text unchanged."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    return parse_object("--filter", text, '{"kind": "LEAF", ...}')


def parse_partition(text: str) -> dict[str, Any]:
    """Decode the partition of ``--partition``."""
    return parse_object("--partition", text, '{"dt": "2025-08-01"}')


def parse_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Decode the JSON object of an option."""
    expected = f"a JSON object such as '{example}' is expected"
    try:
        value = read_json(text.encode(errors="surrogateescape"), option)
    except RequestError as error:
        raise RequestError(f"{error}; {expected}") from error
    if not isinstance(value, dict):
        raise RequestError(f"{option}: {expected}, not {text:.100}")
    return value


def local_path(file: Path) -> str:
    """Return the path of a file in the warehouse of :meth:`Opened.local_files`."""
    return str(file.resolve()).removeprefix("/")
