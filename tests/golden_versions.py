"""Tables of several releases of the engine; the README beside the archives says what is known of each."""

import json
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_ARCHIVES = Path(__file__).parent / "golden" / "versions"


@dataclass(frozen=True, slots=True)
class VersionTable:
    """One table of one release."""

    expected: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.version} {self.name}"

    @property
    def version(self) -> str:
        """The release, or the first one and the one that wrote on; its warehouse's directory."""
        return str(self.expected["version"])

    @property
    def name(self) -> str:
        return str(self.expected["table"])


@cache
def version_tables() -> tuple[VersionTable, ...]:
    documents = json.loads(lzma.decompress((_ARCHIVES / "expected.json.xz").read_bytes()))
    return tuple(map(VersionTable, documents))


def unpack(directory: Path) -> Path:
    """Unpacks a warehouse per release into ``directory``, and returns that."""
    with tarfile.open(_ARCHIVES / "warehouse.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory
