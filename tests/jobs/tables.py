"""What tests ask of tables that jobs have changed."""

from __future__ import annotations

from pathlib import Path

from app.planning.request.requests import DeletionsRequest
from tests.golden_tables import DATABASE
from tests.planning.copied_tables import golden_ref, open_service
from tests.writable_tables import open_table


def table(name: str) -> str:
    return f"{DATABASE}.{name}"


def live_names(root: Path, name: str) -> set[str]:
    return {entry.file.file_name for entry in open_table(root, name).entries()}


def deleted(root: Path, name: str) -> dict[str, set[int]]:
    """Deleted positions by data file, as the service tells them."""
    service = open_service(root)
    answer = service.deletions(golden_ref(name), DeletionsRequest())
    service.close()
    return {each.file_name: set(each.positions or ()) for each in answer.deletions}
