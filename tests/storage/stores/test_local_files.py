"""What lies in a file's place, and is no regular file, is an error at once and holds nobody."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.errors import StorageError
from app.planning.request.requests import PlanRequest, TableRef
from app.storage.stores import local_files
from app.storage.stores.local_files import IrregularFileError
from tests.copied_tables import GROWING, GrowingTable
from tests.golden_cases import DATABASE
from tests.tables import open_service


@contextmanager
def lying_at(path: Path, kind: str) -> Iterator[None]:
    path.unlink(missing_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "socket":
                server.bind(str(path))
            case "device":
                path.symlink_to("/dev/zero")
            case _:
                path.mkdir()
        yield


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "directory"])
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    with lying_at(tmp_path / "file", kind), pytest.raises(OSError) as raised:  # noqa: PT011 - any of them
        local_files.content(tmp_path / "file")

    assert isinstance(raised.value, (IrregularFileError, IsADirectoryError)) or (
        raised.value.errno == errno.ENXIO
    )


@pytest.mark.parametrize("most", [None, 3, 100])
def test_the_content_of_a_file(tmp_path: Path, most: int | None) -> None:
    (tmp_path / "file").write_bytes(b"content")

    assert local_files.content(tmp_path / "file", most) == b"content"[:most]


@pytest.mark.parametrize("place", ["snapshot/LATEST", "snapshot/snapshot-3", "schema/schema-0", "manifest"])
def test_a_pipe_among_the_files_of_a_table_is_an_error(growing: GrowingTable, place: str) -> None:
    path = growing.directory / place
    if path.is_dir():
        path = min(path.iterdir())
    with closing(open_service(growing.warehouse)) as service, lying_at(path, "pipe"):
        table = TableRef("golden", DATABASE, GROWING)
        with pytest.raises(StorageError, match=f"{path.name}.*IrregularFileError"):
            service.plan(table, PlanRequest())
