from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.access import TokenFile
from app.errors import SettingsError
from tests.tokens import document, entry, write

OLD, NEW = entry("old", "1"), entry("new", "2")


def names(file: TokenFile) -> list[str | None]:
    """Who gets in with the secrets 1 and 2."""
    callers = [file.find(secret) for secret in (b"1", b"2")]
    return [None if caller is None else caller.name for caller in callers]


def look(file: TokenFile) -> None:
    """Looks at a file until it was still for long enough."""
    for _ in range(3):
        file.refresh()


def test_a_file_that_is_half_written_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "tokens", OLD)
    whole = write(tmp_path / "whole", NEW, OLD).read_bytes()
    file = TokenFile(str(path), ["main"])
    # The halves in between are a list of fewer tokens, or none at all.
    for size in range(0, len(whole), 8):
        path.write_bytes(whole[:size])
        file.refresh()
        file.refresh()
        assert names(file) == ["old", None]

    path.write_bytes(whole)
    look(file)

    assert names(file) == ["old", "new"]
    assert not caplog.records


def test_a_file_that_was_written_again_is_taken_over(tmp_path: Path) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])
    before = names(file)

    write(path, NEW)
    look(file)

    assert (before, names(file)) == (["old", None], [None, "new"])


def test_a_file_that_was_moved_there_is_taken_over(tmp_path: Path) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])

    write(tmp_path / "next", OLD, NEW).replace(path)
    look(file)

    assert names(file) == ["old", "new"]


def test_a_secret_volume_of_kubernetes_is_followed(tmp_path: Path) -> None:
    for version, token in (("..1", OLD), ("..2", NEW)):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "tokens.yaml", token)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "tokens.yaml"
    path.symlink_to("..data/tokens.yaml")
    file = TokenFile(str(path), ["main"])
    before = names(file)

    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    look(file)

    assert (before, names(file)) == (["old", None], [None, "new"])


@pytest.mark.parametrize(
    "content", [b"", b"tokens: [", document({"name": "x"}), b" " * ((1 << 20) + 1), None]
)
def test_a_broken_file_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])

    path.unlink() if content is None else path.write_bytes(content)
    for _ in range(3):
        look(file)

    assert names(file) == ["old", None]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "the tokens read before stay in force" in record.message


def test_a_file_that_was_mended_is_taken_over(tmp_path: Path) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])

    path.write_bytes(b"tokens: [")
    look(file)
    write(path, OLD, NEW)
    look(file)

    assert names(file) == ["old", "new"]


def test_the_file_is_followed_while_the_service_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])
    file.start()
    try:
        write(path, NEW)
        while names(file) != [None, "new"]:
            pass
    finally:
        file.stop()

    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "tokens cannot be read: No such file"), (b"tokens: 7", "tokens: expected an object")],
)
def test_without_a_sound_file_nothing_starts(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError, match=message):
        TokenFile(str(path))


def test_a_warehouse_that_nobody_configured_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "tokens", entry("a", "1", warehouses=["main", "typo"]))

    TokenFile(str(path), ["main"])

    assert "not configured: typo" in caplog.text
