"""Packs golden index files: ``python tests/golden/pack.py SOURCE KIND...``.

SOURCE holds one directory per kind; each becomes ``unit/<kind>.zip`` beside this script. Equal files give
equal archives: names are sorted and times left out.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_UNIT = Path(__file__).parent / "unit"


def pack(source: Path, kind: str) -> None:
    with zipfile.ZipFile(_UNIT / f"{kind}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted((source / kind).iterdir()):
            archive.writestr(
                zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=9
            )


if __name__ == "__main__":
    _UNIT.mkdir(exist_ok=True)
    root = Path(sys.argv[1])
    for name in sys.argv[2:]:
        pack(root, name)
