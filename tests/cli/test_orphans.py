"""``paimon-index orphans`` as its user runs it."""

from __future__ import annotations

import json
import os
import time

import pytest
from fsspec.implementations.local import LocalFileSystem
from typer.testing import CliRunner

from app.cli import program
from tests.cli.test_command_line import run
from tests.growing_tables import GrowingTable

TABLE = "golden.append_dv32"
YOUNG = "index/index-00000000-0000-0000-0000-000000000001-0"
HALF_DAY = 12 * 3600


@pytest.fixture
def growing(growing: GrowingTable) -> GrowingTable:
    """A table whose last snapshots were never committed: their files are half a day old, one is new."""
    before = time.time() - HALF_DAY
    for file in growing.directory.rglob("*"):
        os.utime(file, (before, before))
    (growing.directory / YOUNG).write_bytes(b"12345")
    return growing


def paths(growing: GrowingTable) -> set[str]:
    return {str(file.relative_to(growing.warehouse)) for file in growing.warehouse.rglob("*")}


def test_a_dry_run_lists_and_removes_nothing(growing: GrowingTable) -> None:
    before = paths(growing)

    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "12h")
    answer = json.loads(
        run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "12h", "--json").stdout
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert answer["orphans"]
    for orphan in answer["orphans"]:
        (row,) = (line for line in done.stdout.splitlines() if line.startswith(f"{orphan['path']} "))
        cells = [*orphan["kind"].split(), str(orphan["bytes"]), "12h", *orphan["outcome"].split()]
        assert row.split()[1:] == cells
        assert (growing.warehouse / orphan["path"]).stat().st_size == orphan["bytes"]
        assert HALF_DAY <= orphan["age_seconds"] < HALF_DAY + 600
    total = sum(orphan["bytes"] for orphan in answer["orphans"])
    assert (
        f"{len(answer['orphans'])} files older than 12h that nothing refers to, {total} bytes" in done.stdout
    )
    assert "1 younger files stay" in done.stdout
    assert "--delete to remove" in done.stdout
    outcomes = {(orphan["kind"], orphan["outcome"]) for orphan in answer["orphans"]}
    assert {("index manifest", "listed"), ("manifest list", "left to the engine")} <= outcomes
    assert f"CALL sys.remove_orphan_files(table => '{TABLE}')" in done.stdout
    assert answer | {"orphans": None} == {
        "table": TABLE,
        "older_than_seconds": HALF_DAY,
        "dry_run": True,
        "orphans": None,
        "orphan_bytes": total,
        "removed_files": 0,
        "removed_bytes": 0,
        "younger_files": 1,
    }
    assert paths(growing) == before


def test_deleting(growing: GrowingTable) -> None:
    arguments = ("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "43200s", "--json")
    before, listed = paths(growing), json.loads(run(*arguments).stdout)

    answer = json.loads(run(*arguments, "--delete").stdout)
    again = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "720m", "--delete")

    assert [orphan["path"] for orphan in answer["orphans"]] == [
        orphan["path"] for orphan in listed["orphans"]
    ]
    removed = [orphan for orphan in answer["orphans"] if orphan["outcome"] == "removed"]
    assert {orphan["kind"] for orphan in removed} == {"index manifest", "index file"}
    assert answer["removed_files"] == len(removed)
    assert answer["removed_bytes"] == sum(orphan["bytes"] for orphan in removed)
    assert before - paths(growing) == {orphan["path"] for orphan in removed}
    others = [orphan for orphan in answer["orphans"] if orphan not in removed]
    assert {orphan["outcome"] for orphan in others} == {"left to the engine"}
    assert all((growing.warehouse / orphan["path"]).exists() for orphan in others)
    assert again.returncode == 0
    assert "removed 0 files, 0 bytes" in again.stdout


def test_the_default_age_is_a_day(growing: GrowingTable) -> None:
    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--delete")

    assert "0 files older than 1d" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TABLE, "--older-than", "1w"), "--older-than takes a number of d, h, m or s"),
        ((TABLE, "--older-than", "-1d"), "--older-than takes a number"),
        ((TABLE, "--older-than", "9999999999999999999d"), "--older-than takes a number"),
        ((TABLE, "--older-than", "59m", "--delete"), "at least 1h"),
        (("golden.nowhere",), "there is no table golden.nowhere"),
        (("nowhere",), "no DATABASE.TABLE"),
    ],
)
def test_errors_remove_nothing(growing: GrowingTable, arguments: tuple[str, ...], message: str) -> None:
    before = paths(growing)

    done = run("orphans", *arguments, "--warehouse", str(growing.warehouse))

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert paths(growing) == before


def test_an_unreadable_tag_removes_nothing(growing: GrowingTable) -> None:
    (growing.directory / "tag").mkdir()
    (growing.directory / "tag" / "tag-broken").write_bytes(b"{")
    before = paths(growing)

    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "1h", "--delete")

    assert (done.returncode, done.stdout) == (1, "")
    assert "tag-broken" in done.stderr
    assert paths(growing) == before


def test_what_cannot_be_removed_is_told(growing: GrowingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_filesystem: LocalFileSystem, path: str) -> None:
        raise PermissionError(f"{path} is read-only")

    monkeypatch.setattr(LocalFileSystem, "rm_file", refuse)
    before = paths(growing)
    arguments = ["orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "1h", "--delete"]

    done = CliRunner().invoke(program, arguments)

    assert done.exit_code == 1
    assert "removed 0 files, 0 bytes" in done.stdout
    failed = [line for line in done.stdout.splitlines() if line.rstrip().endswith("failed")]
    errors = done.stderr.splitlines()
    assert len(failed) == len(errors) > 0
    assert all(line.startswith("error: cannot delete ") for line in errors)
    assert paths(growing) == before
