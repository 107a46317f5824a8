"""Checks of golden data, many in one case: to collect thousands of cases takes longer than the checks."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

Check: TypeAlias = Callable[..., None]


def together(group: str, member: str, members: Mapping[str, Sequence[Any]]) -> Callable[[Check], Check]:
    """Has a check run over all members of a group in one case; a failure tells of which member it is."""

    def decorate(check: Check) -> Check:
        takes_group = group in inspect.signature(check).parameters

        def case(**arguments: Any) -> None:
            name = arguments[group] if takes_group else arguments.pop(group)
            _run(check, arguments, member, members[name])

        names = [name for name in inspect.signature(check).parameters if name not in (group, member)]
        cases: Check = pytest.mark.parametrize(group, [*members])(_named(case, check, [*names, group]))
        return cases

    return decorate


def for_each(member: str, members: Iterable[Any]) -> Callable[[Check], Check]:
    """Has a check run over all members in one case; failures tell of which members they are."""

    def decorate(check: Check) -> Check:
        def case(**arguments: Any) -> None:
            _run(check, arguments, member, members)

        names = [name for name in inspect.signature(check).parameters if name != member]
        return _named(case, check, names)

    return decorate


def _run(check: Check, arguments: Mapping[str, Any], member: str, members: Iterable[Any]) -> None:
    failures = []
    for one in members:
        try:
            check(**arguments, **{member: one})
        except Exception as error:  # noqa: BLE001 - all are told together
            error.add_note(f"{member} {one!s:.200}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{check.__name__}: {len(failures)} failed", failures)


def _named(case: Check, check: Check, names: Sequence[str]) -> Check:
    """The case as pytest sees it: named as the check, with these arguments."""
    case.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # what pytest reads
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    case.__name__, case.__doc__, case.__module__ = check.__name__, check.__doc__, check.__module__
    return case
