"""File indexes of columns, as a table's options declare them.

==========================================  ==============================================================
option                                      meaning
==========================================  ==============================================================
``file-index.<kind>.columns``               columns, separated by commas
``file-index.<kind>.<column>.<option>``     an option of one index; each kind has its own
``file-index.in-manifest-threshold``        maximum size of a container that goes into the
                                            manifest instead of a file (default 500 b)
==========================================  ==============================================================

``column[key]`` stands for the values of a map column under one key. Options of the map column apply to keys
without their own. Existing files keep the indexes they were written with. The engine splits an option's name
at every dot and ignores names of other than three parts, so a column or key with a dot has no options. Stored
options are taken as they are. A given option without effect is an error (``docs/decisions/indexes.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.errors import RequestError
from app.options.reading import OptionReader
from app.suggestions import hint

DEFAULT_THRESHOLD_BYTES: Final = 500

PREFIX: Final = "file-index."
THRESHOLD: Final = "file-index.in-manifest-threshold"
_COLUMNS: Final = ".columns"
_NAME_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class IndexDeclaration:
    """Index of a column, or of ``column[key]``. A parameter's name is the last part of its option's name."""

    column: str
    kind: str
    parameters: Mapping[str, str]


def stored_indexes(options: Mapping[str, str]) -> tuple[IndexDeclaration, ...]:
    """List the indexes that stored options declare, by column, then kind."""
    listed = [(kind, name) for kind, _, names in _lists(options) for name in names if name]
    indexes = [IndexDeclaration(column, kind, _parameters(kind, column, options)) for kind, column in listed]
    return tuple(sorted(indexes, key=lambda index: (index.column, index.kind)))


def given_indexes(
    options: Mapping[str, str], parameters_by_kind: Mapping[str, Sequence[str]]
) -> tuple[IndexDeclaration, ...]:
    """List the indexes that options given for writing declare, in their order."""
    listed: list[tuple[str, str]] = []
    for kind, option, names in _lists(options):
        _check_kind(option, kind, parameters_by_kind)
        for at, name in enumerate(names):
            if not name:
                raise RequestError(
                    f"{option} must be names separated by commas, found {options[option]!r:.100}"
                )
            if name in names[:at]:
                raise RequestError(f"{option} lists column {name!r} twice")
            listed.append((kind, name))
    _refuse_without_effect(options, set(listed), parameters_by_kind)
    return tuple(
        IndexDeclaration(column, kind, _parameters(kind, column, options)) for kind, column in listed
    )


def with_added(stored: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Merge given options into stored ones. Given columns are appended to the listed ones."""
    listed = {option: names for _, option, names in _lists(stored)}
    added = {
        option: ",".join([*listed[option], *(name for name in names if name not in listed[option])])
        for _, option, names in _lists(given)
        if listed.get(option, [""]) != [""]
    }
    return {**stored, **given, **added}


def in_manifest_threshold(options: Mapping[str, str]) -> int:
    """Return the size in bytes of the largest container that goes into the manifest."""
    return OptionReader(options, given=True).size(THRESHOLD, DEFAULT_THRESHOLD_BYTES)


def _lists(options: Mapping[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    for option, value in options.items():
        if option.startswith(PREFIX) and option.endswith(_COLUMNS):
            # Java's split drops empty parts at the end.
            names = [name.strip() for name in value.rstrip(",").split(",")]
            yield option[len(PREFIX) : -len(_COLUMNS)], option, names


def _parameters(kind: str, column: str, options: Mapping[str, str]) -> dict[str, str]:
    bases = [f"{PREFIX}{kind}.{name}." for name in (split_map_key(column)[0], column)]
    return {
        option.removeprefix(base): value
        for base in bases
        for option, value in options.items()
        if option.startswith(base)
    }


def _check_kind(option: str, kind: str, parameters_by_kind: Mapping[str, Sequence[str]]) -> None:
    if kind not in parameters_by_kind:
        suggestion = hint(kind, list(parameters_by_kind), plural="index types")
        raise RequestError(f"{option}: there is no index type {kind!r:.100}{suggestion}")


def _refuse_without_effect(
    options: Mapping[str, str], listed: set[tuple[str, str]], parameters_by_kind: Mapping[str, Sequence[str]]
) -> None:
    indexed = {(kind, split_map_key(column)[0]) for kind, column in listed} | listed
    for name in options:
        if not name.startswith(PREFIX) or name.endswith(_COLUMNS):
            continue
        kind, *rest = name.removeprefix(PREFIX).split(".")
        if kind not in parameters_by_kind and len(rest) + 1 < _NAME_PARTS:
            continue
        _check_kind(name, kind, parameters_by_kind)
        if len(rest) + 1 != _NAME_PARTS:
            suggestion = hint(name, [f"{PREFIX}{kind}{_COLUMNS}"])
            raise RequestError(
                f"{name} has no effect: the engine takes {PREFIX}{kind}.<column>.<option> only, so that a "
                f"column or key with a dot has no options{suggestion}"
            )
        column, parameter = rest
        if (kind, column) not in indexed:
            raise RequestError(f"{name} has no effect: {PREFIX}{kind}.columns does not list {column!r}")
        if parameter not in parameters_by_kind[kind]:
            suggestion = hint(parameter, parameters_by_kind[kind], plural="options")
            raise RequestError(f"{name} has no effect: {parameter!r} is not an option of {kind}{suggestion}")


def split_map_key(column: str) -> tuple[str, str | None]:
    """Split ``column[key]`` into column and key. Other names have no key."""
    start = column.find("[")
    return (column[:start], column[start + 1 : -1]) if start >= 0 and column.endswith("]") else (column, None)


def map_key_name(column: str, key: str) -> str:
    """Return the name that options and containers use for a key of a map column."""
    return f"{column}[{key}]"
