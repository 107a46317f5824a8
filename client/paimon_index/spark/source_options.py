"""Options of the data source: texts that Spark hands over, whatever the case of their names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from paimon_index.catalog import Schema
    from paimon_index.options import VersionOptions

_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]*[^`,\s]))\s*(?:,|$)")
_SECONDS: Final = re.compile(r"\d+(\.\d+)?")
_TIMES: Final = ("DATE", "TIME")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What is read, and from where.

    Attributes:
        path: the table, ``warehouse.database.table``.
        url: base URLs of the service.
        token: the secret for it.
        where: rows that meet this condition are given, and no others.
        prune: rows that cannot meet this condition may be left out.
        time_zone: in which either is meant.
        columns: in the order wanted; None for all.
        snapshot_id: of the version; None for the latest.
        tag: of the version, instead of its snapshot.
        branch: that is read; None for the main one.
        deadline_seconds: for an answer of the service.
    """

    path: str
    url: tuple[str, ...]
    token: str | None
    where: str | None
    prune: str | None
    time_zone: str | None
    columns: tuple[str, ...] | None
    snapshot_id: int | None
    tag: str | None
    branch: str | None
    deadline_seconds: float

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Reads what was given.

        Raises:
            ValueError: an option is missing, unknown, or has not the form that it should have.
        """
        options = {name.lower(): value for name, value in given.items()}
        known = [field.name for field in fields(cls)]
        for name in sorted(options.keys() - set(known)):
            raise ValueError(f"paimon_index has no option {name}; it has {', '.join(sorted(known[1:]))}")
        if not options.get("path"):
            raise ValueError('paimon_index reads the table that load("warehouse.database.table") names')
        if not options.get("url"):
            raise ValueError("paimon_index needs option url, the base URL of the service")
        if "where" in options and "prune" in options:
            raise ValueError("paimon_index takes one of the options where and prune")
        number = options.get("snapshot_id")
        if number is not None and not number.isdecimal():
            raise ValueError(f"option snapshot_id of paimon_index is a number, found {number}")
        seconds = options.get("deadline_seconds", "30")
        if not _SECONDS.fullmatch(seconds):
            raise ValueError(f"option deadline_seconds of paimon_index is a number, found {seconds}")
        columns = options.get("columns")
        return cls(
            path=options["path"],
            url=tuple(each.strip() for each in options["url"].split(",")),
            token=options.get("token"),
            where=options.get("where"),
            prune=options.get("prune"),
            time_zone=options.get("time_zone"),
            columns=None if columns is None else _names(columns),
            snapshot_id=None if number is None else int(number),
            tag=options.get("tag"),
            branch=options.get("branch"),
            deadline_seconds=float(seconds),
        )

    @property
    def version(self) -> VersionOptions:
        """Which version is read."""
        return {"snapshot_id": self.snapshot_id, "tag": self.tag, "branch": self.branch}

    @property
    def condition(self) -> str | None:
        """What the service is asked."""
        return self.where if self.prune is None else self.prune


def may_need_zone(schema: Schema, named: Collection[str]) -> bool:
    """Whether a condition might mean other rows in another time zone.

    Args:
        schema: of the table.
        named: columns whose name stands in the condition.
    """
    types = (json.dumps(field.type) for field in schema.fields if field.name in named)
    return any(word in written for written in types for word in _TIMES)


def _names(written: str) -> tuple[str, ...]:
    """Names between commas; those with commas stand in back quotes, as in Spark."""
    names, at = [], 0
    while at < len(written):
        match = _NAME.match(written, at)
        if match is None:
            raise ValueError(f"option columns of paimon_index lists names between commas, found {written}")
        quoted, plain = match.groups()
        names.append(plain or quoted.replace("``", "`"))
        at = match.end()
    return tuple(names)
