"""Commands whose options are members of the request that they make.

The request, such as those of :mod:`app.planning.request.requests`, defines type and help of each option. A
member that is an object, or a list of objects, is written as JSON. A filter is JSON or text. A command
selects members, and adds options of its own for members that are hard to write as JSON.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, TypeVar, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from app.cli.options import (
    AllowExternal,
    JsonOption,
    Opened,
    TableArgument,
    WarehouseOption,
    parse_object,
)
from app.cli.output import print_answer
from app.planning.request import TableRef, VersionedRequest
from app.planning.request.members import Request

_Asks = TypeVar("_Asks", bound=Request)

VERSION: Final = ("snapshot_id", "tag", "timestamp_millis", "branch")


@dataclass(frozen=True)
class Invocation(Generic[_Asks]):
    """Parsed command line: a table, a warehouse, and members of a request."""

    request: type[_Asks]
    members: Mapping[str, Any]
    table_name: str | None
    warehouse: str | None
    allow_external: Sequence[str] | None

    @cached_property
    def opened(self) -> Opened:
        """The service of the warehouse, or of this machine's files if no table is needed."""
        if self.warehouse is None and not issubclass(self.request, VersionedRequest):
            return Opened.local_files()
        return Opened.warehouse_of(self.warehouse, self.allow_external)

    @property
    def table(self) -> TableRef:
        """The table of the command line."""
        return self.opened.table(self.table_name or "")

    def read(self, **more: object) -> _Asks:
        """Build the request with further members. Raises RequestError if a value is not allowed."""
        return self.request.read({**self.members, **more})


def asks(
    request: type[Request], *members: str, flags: Mapping[str, str] | None = None, **defaults: object
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """Turn a function that answers an invocation into a command.

    ``members``: members of the request that the command offers as options. ``flags``: names of options that
    differ from their member's. ``defaults``: values of members that differ on the command line.
    """
    options = {
        name: _Option(request.model_fields[name], (flags or {}).get(name, f"--{name.replace('_', '-')}"))
        for name in members
    }

    def command(answer: Callable[..., object]) -> Callable[..., None]:
        own = inspect.signature(answer, eval_str=True).parameters
        parameters = [parameter for name, parameter in own.items() if name != "invocation"]
        if issubclass(request, VersionedRequest) and "table" not in own:
            parameters.insert(0, _parameter("table", TableArgument, inspect.Parameter.empty))
        parameters += [
            _parameter(name, option.annotation, defaults.get(name, option.default))
            for name, option in options.items()
        ]
        parameters += [
            _parameter("warehouse", WarehouseOption, None),
            _parameter("allow_external", AllowExternal, None),
            _parameter("as_json", JsonOption, default=False),
        ]

        @wraps(answer)
        def run(
            *, warehouse: str | None, allow_external: Sequence[str] | None, as_json: bool, **given: Any
        ) -> None:
            read = {name: option.read(given.pop(name)) for name, option in options.items()}
            table = given.get("table") if "table" in own else given.pop("table", None)
            invocation = Invocation(request, read, table, warehouse, allow_external)
            print_answer(answer(invocation, **given), as_json=as_json)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # as inspect documents
        return run

    return command


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


class _Option:
    def __init__(self, field: FieldInfo, flag: str) -> None:
        forms = list(_forms(field.annotation))
        self._flag = flag
        self._is_list = get_origin(forms[0]) is Sequence
        if self._is_list:
            forms = list(_forms(get_args(forms[0])[0]))
        self._is_object, self._may_be_object = _is_object(forms[0]), any(map(_is_object, forms))
        (example,) = (field.examples or [{}])[:1]
        self._example = example[0] if self._is_list and example else example
        kind = forms[0] if forms[0] in (bool, int) else str
        is_open = field.is_required() or not isinstance(field.default, int)
        self.default = (
            field.default if not is_open else inspect.Parameter.empty if field.is_required() else None
        )
        taken: Any = list[kind] if self._is_list else kind  # type: ignore[valid-type] # chosen here
        option = typer.Option(flag, help=_description(field), metavar="JSON" if self._is_object else None)
        self.annotation = Annotated[taken if self.default is not None else taken | None, option]

    def read(self, given: Any) -> Any:
        """Convert the texts of the option to the member's value."""
        if self._is_list:
            return [self._read(each) for each in given] if given else None
        return self._read(given)

    def _read(self, given: Any) -> Any:
        is_text = not self._is_object and not str(given).lstrip().startswith("{")
        if given is None or not self._may_be_object or is_text:
            return given
        return parse_object(self._flag, given, json.dumps(self._example or {"kind": "LEAF"}))


def _forms(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _forms(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _forms(each)
    elif annotation is not NoneType:
        yield annotation


def _is_object(form: Any) -> bool:
    return get_origin(form) in (dict, Mapping)


def _description(field: FieldInfo) -> str | None:
    described = [field.description]
    for each in get_args(field.annotation):
        described += [getattr(part, "description", None) for part in getattr(each, "__metadata__", ())]
    text = next(filter(None, described), None)
    return None if text is None else f"{text.partition('. ')[0].rstrip('.')}."
