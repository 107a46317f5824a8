"""Checks of golden data, many in one case: to collect thousands of cases takes longer than the checks."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest


def together(
    group: str, member: str, members: Mapping[str, Sequence[Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Has a check run over all members of a group in one case; a failure tells of which member it is.

    Args:
        group: the argument of the case, which the check is given if it takes it.
        member: the argument of the check.
        members: by group.
    """

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(check)

        def case(**arguments: Any) -> None:
            name = arguments[group] if group in signature.parameters else arguments.pop(group)
            for each in members[name]:
                try:
                    check(**arguments, **{member: each})
                except BaseException as error:
                    error.add_note(f"{group} {name}, {member} {each!s:.200}")
                    raise

        names = [name for name in signature.parameters if name not in (group, member)]
        case.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # what pytest reads
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in (*names, group)]
        )
        case.__name__, case.__doc__, case.__module__ = check.__name__, check.__doc__, check.__module__
        cases: Callable[..., None] = pytest.mark.parametrize(group, [*members])(case)
        return cases

    return decorate
