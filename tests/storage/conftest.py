"""A warehouse on the disk, with one file in it and one beside it."""

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "warehouse"
    (root / "db.db" / "t").mkdir(parents=True)
    (root / "db.db" / "t" / "file").write_bytes(b"0123456789")
    (tmp_path / "secret").write_bytes(b"secret")
    return root
