"""Rooms have doors, each with few names, and docs/architecture.md lists them."""

from __future__ import annotations

import pytest

from tests.doors import ROOT, doors, exported, table

_MOST_NAMES = 20


@pytest.mark.parametrize("door", doors())
def test_a_door_has_few_names(door: str) -> None:
    assert len(exported(door) or ()) <= _MOST_NAMES


def test_the_documents_list_the_doors() -> None:
    assert table() in (ROOT / "docs/architecture.md").read_text(), "python -m tests.doors prints the table"
