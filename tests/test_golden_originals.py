"""The golden archives of this repository hold what the engine wrote, byte for byte."""

import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.shared

_GOLDEN = Path(__file__).parent / "golden"
_ORIGINALS = Path(__file__).resolve().parents[2] / "shared" / "golden"


@pytest.mark.parametrize("name", sorted(path.name for path in (_GOLDEN / "unit").glob("*.zip")))
def test_unit_files(name: str) -> None:
    originals = _ORIGINALS / "unit" / name.removesuffix(".zip")

    with zipfile.ZipFile(_GOLDEN / "unit" / name) as archive:
        kept = {member: archive.read(member) for member in archive.namelist()}

    assert kept == {path.name: path.read_bytes() for path in originals.iterdir()}


@pytest.mark.parametrize("name", ["warehouse.tar.xz", "expected.tar.xz"])
def test_table_files(name: str) -> None:
    with tarfile.open(_GOLDEN / "tables" / name) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
        differing = [
            path
            for path, kept in files
            if kept is None or kept.read() != (_ORIGINALS / "tables" / path).read_bytes()
        ]

    assert files
    assert not differing


def test_tables_of_releases() -> None:
    originals: dict[str, bytes] = {}
    for path in (_ORIGINALS / "versions").glob("*.tar.xz"):
        with tarfile.open(path) as archive:
            files = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
            version = path.name.removesuffix(".tar.xz")
            originals |= {
                name.replace("warehouse", version, 1): file.read() for name, file in files if file is not None
            }

    with tarfile.open(_GOLDEN / "versions" / "warehouse.tar.xz") as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
        differing = [name for name, kept in files if kept is None or kept.read() != originals.get(name)]

    assert files
    assert not differing
