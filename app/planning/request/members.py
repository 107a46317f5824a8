"""Members, types and bounds of requests, for HTTP, library and command line alike.

Types are strict (``"7"`` is not a number), and null stands for an absent member. The planner reads literals,
keys and partitions, since it knows the types of their columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    ValidationError,
    model_validator,
)
from pydantic_core import core_schema

from app.errors import FilterError, RequestError
from app.planning.request.faults import explain_faults, refuse_unknown
from app.predicates import NO_ARROW
from app.predicates.unbound import DEFAULT_LIMITS, Predicate

_INT32: Final = 1 << 31
_LONG_MAX: Final = (1 << 63) - 1
_Written = TypeVar("_Written")
_Item = TypeVar("_Item")

Count = Annotated[int, Field(ge=0, le=_LONG_MAX)]
Name = Annotated[str, Field(min_length=1)]
Hash = Annotated[int, Field(ge=-_INT32, lt=_INT32)]
AssignId = Annotated[int, Field(ge=0, lt=_INT32)]
Channels = Annotated[int, Field(ge=1, lt=_INT32)]

TypedValues = Annotated[Mapping[str, Any], GetPydanticSchema(lambda _, handler: handler(dict[str, Any]))]
Partition = Annotated[
    TypedValues | None, Field(description="Values by partition column.", examples=[{"dt": "2025-08-01"}])
]


class Request(BaseModel):
    """A JSON object. Null stands for an absent member."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    example: ClassVar[Mapping[str, object]] = {}
    """A valid request."""

    @classmethod
    def example_text(cls) -> str:
        """Return the example as JSON."""
        return json.dumps(cls.example)

    @classmethod
    def read(cls, members: object) -> Self:
        """Read a request from a JSON value. Raises RequestError that names the members at fault."""
        if not isinstance(members, dict):
            raise RequestError(f"the body is not a JSON object: send one such as {cls.example_text()}")
        try:
            return cls.model_validate(members)
        except ValidationError as error:
            faults = error.errors(include_url=False)
            raise RequestError(explain_faults(faults, cls.model_fields)) from error

    @classmethod
    def like(cls, other: Request, **members: Any) -> Self:
        """Copy the members that another request shares with this class, and add ``members``."""
        shared = {name: value for name, value in other if name in cls.model_fields}
        return cls.model_construct(**shared | members)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, members: object) -> object:
        if not isinstance(members, dict):
            return members
        if cls.model_config.get("extra") == "forbid":
            # A misspelt member would silently change the question.
            refuse_unknown(cls, members, "member" if cls.model_config.get("strict") else "parameter")
        return {name: value for name, value in members.items() if value is not None}


def as_read(form: Any, read: Callable[[Any, Callable[[Any], Any]], Any]) -> GetPydanticSchema:
    """Annotate a member whose JSON value has the type ``form``, and is held as the result of ``read``.

    ``read`` gets the caller's value, and the function that validates the form.
    """
    return GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(read, handler(form))
    )


def one_of(first: StrEnum, *others: StrEnum) -> GetPydanticSchema:
    """Annotate a member whose value is one of these names."""
    names = core_schema.literal_schema([str(name) for name in (first, *others)])
    return GetPydanticSchema(
        lambda _, __: core_schema.no_info_before_validator_function(
            lambda value: str(value) if isinstance(value, type(first)) else value,
            core_schema.no_info_after_validator_function(type(first), names),
        )
    )


def _listed(listed: Any, handler: Callable[[Any], Any]) -> Any:
    """Accept any Python sequence, and report faults as for a JSON list."""
    return handler(list[get_args(listed)[0]]) | {"strict": False}  # type: ignore[misc] # a type that is made


def _of_allowed_size(written: _Written) -> _Written:
    DEFAULT_LIMITS.check_size(written)
    return written


def _filter(written: object, check: Callable[[object], object]) -> object:
    return written if isinstance(written, Predicate) else _of_allowed_size(check(written))


def _refuse_arrow(listed: object) -> object:
    if isinstance(listed, dict) and "$arrow" in listed:
        raise FilterError(NO_ARROW)
    return listed


Listed = Annotated[Sequence[_Item], GetPydanticSchema(_listed)]
FileNames = Annotated[Listed[str], Field(fail_fast=True)]
OF_ALLOWED_SIZE: Final = AfterValidator(_of_allowed_size)
"""Validator that refuses too long filters before they are hashed."""
Filter = Annotated[
    # Callers that read a filter of another form pass a Predicate.
    str | Mapping[str, Any] | Predicate,
    as_read(str | dict[str, Any], _filter),
    Field(
        description="Text as after WHERE, or the JSON form of a Paimon predicate.",
        examples=["dt = '2025-08-01' AND score BETWEEN 60 AND 80"],
    ),
]
InLists = Annotated[
    Mapping[str, Sequence[Any]],
    GetPydanticSchema(
        lambda _, handler: handler(dict[str, Annotated[Listed[Any], BeforeValidator(_refuse_arrow)]])
    ),
    Field(
        description="Lists of values by column: a row of the answer satisfies the filter, and its value in "
        "each column is in the column's list, as with IN. For long lists, such as the keys of the small side "
        "of a join.",
        examples=[{"id": [1, 2, 3]}],
    ),
]
