"""Tables with global indexes that pypaimon and the engine wrote, as ``golden/global_indexes`` tells them."""

import tarfile
from pathlib import Path
from typing import Final

_ARCHIVE: Final = Path(__file__).parent / "golden" / "global_indexes" / "warehouse.tar.xz"


def unpack(directory: Path) -> Path:
    """Unpacks the warehouse into ``directory``, and returns it; index files outside lie in ``external``."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory / "warehouse"


def tables() -> list[str]:
    """The tables by database and name."""
    with tarfile.open(_ARCHIVE) as archive:
        paths = [Path(name) for name in archive.getnames()]
    return sorted(
        {f"{path.parts[1]}/{path.parts[2]}" for path in paths if path.match("warehouse/*.db/*/schema")}
    )
