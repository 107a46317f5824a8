"""How advice is followed: SQL for what is written from then on, a command for the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from app.planning.version.version import Version


def statements(version: Version, options: Mapping[str, str | None]) -> list[str]:
    """Spark's SQL that sets options of the table, and removes those that are None."""
    table = ".".join(f"`{part.replace('`', '``')}`" for part in (version.table.database, version.table.name))
    values = ", ".join(
        f"{_text(name)} = {_text(value)}" for name, value in options.items() if value is not None
    )
    removed = ", ".join(_text(name) for name, value in options.items() if value is None)
    written = (("SET", values), ("UNSET", removed))
    return [f"ALTER TABLE {table} {verb} TBLPROPERTIES ({what})" for verb, what in written if what]


def rebuild(version: Version) -> str:
    """What writes the indexes of the table's files; jobs find tables by their names alone."""
    name, url = f"{version.table.database}.{version.table.name}", version.source.warehouse.public_url
    if not version.table.is_at_its_name:
        return f"CALL sys.rewrite_file_index(table => {_text(name)})"
    return shlex.join(["paimon-index", "job", "build-index", name, "--warehouse", url.rstrip("/")])


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
