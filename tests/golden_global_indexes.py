"""Tables with global indexes that pypaimon and the engine wrote, as ``golden/global_indexes`` tells them."""

import tarfile
from pathlib import Path
from typing import Final

_GOLDEN: Final = Path(__file__).parent / "golden"
_ARCHIVE: Final = _GOLDEN / "global_indexes" / "warehouse.tar.xz"
IGNORED: Final = _GOLDEN / "ignored_index" / "warehouse.tar.xz"
"""Tables whose indexes ignored updates."""


def unpack(directory: Path, golden: Path = _ARCHIVE) -> Path:
    """Unpacks the warehouse into ``directory``, and returns it; index files outside lie in ``external``."""
    with tarfile.open(golden) as archive:
        archive.extractall(directory, filter="data")
    return directory / "warehouse"


def tables() -> list[str]:
    """Return the tables by database and name."""
    with tarfile.open(_ARCHIVE) as archive:
        paths = [Path(name) for name in archive.getnames()]
    return sorted(
        {f"{path.parts[1]}/{path.parts[2]}" for path in paths if path.match("warehouse/*.db/*/schema")}
    )
