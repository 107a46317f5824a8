"""Commits: new snapshots of a table, made as the engine makes them.

:class:`Changes` say what a commit adds and removes, :class:`Committer` makes the snapshot, or says what is in
the way.
"""

from app.table.commits.changes import Changes, CommitKind, Expectations
from app.table.commits.committer import Committer

__all__ = ["Changes", "CommitKind", "Committer", "Expectations"]
