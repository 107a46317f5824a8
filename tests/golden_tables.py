"""Golden tables: whole warehouses that the Java engine wrote, and what the engine says about them.

``warehouse.tar.xz`` holds ``warehouse/golden.db/<table>/`` and ``external/<table>/`` (files that live outside
their table), ``expected.tar.xz`` one JSON document per table and ``index.json``; the README beside them says
what the documents mean. The ``golden`` fixture of ``conftest.py`` unpacks the warehouse once per session.
"""

import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATABASE = "golden"

_ARCHIVES = Path(__file__).parent / "golden" / "tables"


@dataclass(frozen=True, slots=True)
class GoldenWarehouse:
    """The unpacked archive; nothing in it may be written to."""

    root: Path
    external: Path

    def table(self, name: str) -> Path:
        return self.root / f"{DATABASE}.db" / name

    def allow_external(self) -> list[str]:
        """``URI=LOCATION`` per external root: where the engine wrote it, where it is now."""
        return [
            f"{root['uri']}=file://{self.external.parent / root['copied_to']}"
            for name in tables()
            for root in expected(name).get("external_roots", ())
        ]


def unpack(directory: Path) -> GoldenWarehouse:
    """Unpacks the archive into ``directory``."""
    with tarfile.open(_ARCHIVES / "warehouse.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return GoldenWarehouse(directory / "warehouse", directory / "external")


@cache
def tables() -> tuple[str, ...]:
    return tuple(table["table"] for table in json.loads(_documents()["index.json"])["tables"])


@cache
def expected(name: str) -> dict[str, Any]:
    """The expectations of one table; shared, so do not change it."""
    document: dict[str, Any] = json.loads(_documents()[f"expected/{name}.json"])
    return document


@cache
def _documents() -> dict[str, bytes]:
    with tarfile.open(_ARCHIVES / "expected.tar.xz") as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive if member.isfile())
        return {name: file.read() for name, file in files if file is not None}
