"""Options under which the engine's batch reads see other rows than those of the version that is planned.

A plan that passed over one of them would leave out rows of a branch or bucket that nobody here looks at, or
judge rows that a reader sees changed. ``docs/tables.md`` lists them with those that are honoured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.errors import UnsupportedFormatError

_OTHER_VERSION: Final = "reads another version, or the changes between two"
_OTHER_BRANCH: Final = "reads partitions of another branch, too"

REFUSED: Final = {
    "scan.mode": _OTHER_VERSION,
    "log.scan": _OTHER_VERSION,
    "scan.snapshot-id": _OTHER_VERSION,
    "scan.tag-name": _OTHER_VERSION,
    "scan.version": _OTHER_VERSION,
    "scan.watermark": _OTHER_VERSION,
    "scan.timestamp": _OTHER_VERSION,
    "scan.timestamp-millis": _OTHER_VERSION,
    "log.scan.timestamp-millis": _OTHER_VERSION,
    "scan.creation-time-millis": _OTHER_VERSION,
    "scan.file-creation-time-millis": _OTHER_VERSION,
    "incremental-between": _OTHER_VERSION,
    "incremental-between-timestamp": _OTHER_VERSION,
    "incremental-to-auto-tag": _OTHER_VERSION,
    "batch-scan-mode": "reads files that a compaction is to read",
    "stream-scan-mode": "reads files as they come",
    "scan.bucket": "reads one bucket",
    "branch": "reads another branch",
    "scan.fallback-branch": _OTHER_BRANCH,
    "scan.primary-branch": _OTHER_BRANCH,
    "chain-table.enabled": "reads rows of two branches together",
    "postpone.merge-on-read": "reads rows that wait for their bucket, too",
    "query-auth.enabled": "hides or masks values by reader",
    "type": "is about files that have no snapshots",
}
"""What each option does to a batch read unless it has one of its harmless values."""

_OFF: Final = frozenset({"", "false"})
_HARMLESS: Final = {
    "scan.mode": frozenset({"default", "latest-full", "full", "latest"}),
    "log.scan": frozenset({"default", "latest-full", "full", "latest"}),
    "batch-scan-mode": frozenset({"none"}),
    "stream-scan-mode": frozenset({"none"}),
    "branch": frozenset({"", "main"}),
    "type": frozenset({"table", "materialized-table"}),
}


def check_options(options: Mapping[str, str], table: str) -> None:
    """States that batch reads of a table see the rows of the version that they name.

    Args:
        options: all of the table.
        table: its name, for messages.

    Raises:
        UnsupportedFormatError: an option has them see others.
    """
    for name in sorted(REFUSED.keys() & options.keys()):
        value = options[name]
        if value.strip().lower() not in _HARMLESS.get(name, _OFF):
            raise UnsupportedFormatError(
                f"table {table} has the option {name}={value:.100}, under which the engine {REFUSED[name]}: "
                f"unset it, or read the table with the engine"
            )
    is_clustered = options.get("pk-clustering-override", "false").strip().lower() == "true"
    if is_clustered and options.get("deletion-vectors.merge-on-read", "false").strip().lower() == "true":
        raise UnsupportedFormatError(
            f"table {table} has the options pk-clustering-override and deletion-vectors.merge-on-read, under "
            f"which nothing tells which files merge: unset one of them, or read the table with the engine"
        )
