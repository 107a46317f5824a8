"""Processes that serve together and ask each other."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.api.caches import Caches
from app.api.problems import ProblemError
from app.opening import create_service
from app.server.processes import Answer, Processes, shared_directory
from app.settings import Settings


@contextmanager
def answering(directory: Path | None, **answers: bytes) -> Iterator[Processes]:
    process = Processes(directory)
    for question, content in answers.items():
        process.answer(question.encode(), lambda content=content: content)  # type: ignore[misc]
    process.start()
    yield process
    process.stop()


def test_every_other_process_is_asked(tmp_path: Path) -> None:
    with (
        answering(tmp_path, who=b"first") as first,
        answering(tmp_path, who=b"second") as second,
        answering(tmp_path, who=b"third" * 100_000) as third,
    ):
        assert sorted(first.ask(b"who")) == sorted(
            [Answer(second.name, b"second"), Answer(third.name, b"third" * 100_000)]
        )
        assert {answer.content for answer in third.ask(b"who")} == {b"first", b"second"}


def test_a_process_that_ended_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    with answering(tmp_path) as asking, closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as hanging:
        hanging.bind(str(tmp_path / "hanging.sock"))
        hanging.listen()
        with answering(tmp_path, who=b"ended") as ended:
            pass

        assert list(asking.ask(b"who")) == [
            *([Answer(ended.name, None, is_gone=True)]),
            Answer("hanging", None),
        ]


def test_one_process_alone_asks_nobody() -> None:
    with answering(None) as alone:
        assert list(alone.ask(b"who")) == []


def test_caches_that_are_not_known_to_be_cleared_are_an_error(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as hanging:
        hanging.bind(str(tmp_path / "hanging.sock"))
        hanging.listen()
        service = create_service(Settings(warehouses={"main": str(tmp_path)}))
        caches = Caches(service, Processes(tmp_path))

        with pytest.raises(ProblemError) as caught:
            caches.clear()

    assert caught.value.problem.status == 503
    assert "1 of 2 processes" in caught.value.problem.detail


def test_the_directory_of_a_run_is_private_and_removed() -> None:
    with shared_directory() as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
        abandoned = directory.parent / f"{directory.name}-abandoned"
        abandoned.mkdir()
        (abandoned / "lock").touch()
        os.utime(abandoned, (0, 0))
        with shared_directory() as other:
            assert other != directory
            assert directory.exists()
        assert not abandoned.exists()
    assert not directory.exists()
