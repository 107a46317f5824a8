"""``paimon-index orphans`` as its user runs it."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.cli.commands import run
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


def test_files_are_listed(growing: GrowingTable) -> None:
    before = paths(growing)

    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "12h")
    answer = json.loads(
        run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "12h", "--json").stdout
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert answer["orphans"]
    for orphan in answer["orphans"]:
        (row,) = (line for line in done.stdout.splitlines() if line.startswith(f"{orphan['path']} "))
        cells = [*orphan["kind"].split(), str(orphan["bytes"]), "12h"]
        assert row.split()[1:] == cells
        assert (growing.warehouse / orphan["path"]).stat().st_size == orphan["bytes"]
        assert HALF_DAY <= orphan["age_seconds"] < HALF_DAY + 600
    total = sum(orphan["bytes"] for orphan in answer["orphans"])
    assert (
        f"{len(answer['orphans'])} files older than 12h that nothing refers to, {total} bytes" in done.stdout
    )
    assert "1 younger files" in done.stdout
    assert {"index manifest", "manifest list"} <= {orphan["kind"] for orphan in answer["orphans"]}
    assert f"CALL sys.remove_orphan_files(table => '{TABLE}')" in done.stdout
    assert answer | {"orphans": None} == {
        "table": TABLE,
        "older_than_seconds": HALF_DAY,
        "orphans": None,
        "orphan_bytes": total,
        "younger_files": 1,
    }
    assert paths(growing) == before


def test_the_default_age_is_a_day(growing: GrowingTable) -> None:
    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse))

    assert "0 files older than 1d" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TABLE, "--older-than", "1w"), "--older-than takes a number of d, h, m or s"),
        ((TABLE, "--older-than", "-1d"), "--older-than takes a number"),
        ((TABLE, "--older-than", "9999999999999999999d"), "--older-than takes a number"),
        (("golden.nowhere",), "there is no table golden.nowhere"),
        (("nowhere",), "no DATABASE.TABLE"),
    ],
)
def test_errors(growing: GrowingTable, arguments: tuple[str, ...], message: str) -> None:
    before = paths(growing)

    done = run("orphans", *arguments, "--warehouse", str(growing.warehouse))

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert paths(growing) == before


def test_an_unreadable_tag(growing: GrowingTable) -> None:
    (growing.directory / "tag").mkdir()
    (growing.directory / "tag" / "tag-broken").write_bytes(b"{")
    before = paths(growing)

    done = run("orphans", TABLE, "--warehouse", str(growing.warehouse), "--older-than", "1h")

    assert (done.returncode, done.stdout) == (1, "")
    assert "tag-broken" in done.stderr
    assert paths(growing) == before
