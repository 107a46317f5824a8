import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from app.storage.disk.disk_tier import DiskTier, entry_key
from tests.storage.disk.damaged_entries import replace_entries

LARGE = 1 << 30
KEY = b"arrays"


def piece(path: str = "db.db/t/manifest/manifest-1", **members: str | int | None) -> bytes:
    given: dict[str, str | int | None] = {
        "warehouse": "main file:///w/",
        "size": 100,
        "offset": 0,
        "length": None,
    }
    given |= members
    return entry_key(given.pop("warehouse"), path, *given.values())


def entries(directory: Path) -> list[Path]:
    return sorted(found for found in (directory / "entries-1").rglob("*") if found.is_file())


def test_what_was_put_comes_back_after_a_restart(tmp_path: Path) -> None:
    DiskTier(tmp_path / "cache", LARGE).put_bytes(piece(), b"content")

    tier = DiskTier(tmp_path / "cache", LARGE)

    assert tier.get_bytes(piece()) == b"content"
    assert tier.get_bytes(piece("db.db/t/manifest/manifest-2")) is None
    statistics = tier.statistics()
    assert (statistics.hits, statistics.misses, statistics.entries, statistics.bytes) == (1, 1, 1, 4096)


@pytest.mark.parametrize(
    "other",
    [
        piece("db.db/t/manifest/manifest-10"),
        piece(warehouse="other file:///w/"),
        piece(size=101),
        piece(size=None),
        piece(offset=1),
        piece(length=100),
        piece("\ud800"),
    ],
)
def test_every_member_tells_pieces_apart(tmp_path: Path, other: bytes) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"one")
    assert tier.get_bytes(other) is None
    tier.put_bytes(other, b"other")
    assert (tier.get_bytes(piece()), tier.get_bytes(other)) == (b"one", b"other")


def test_an_entry_that_is_written_again_counts_once(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    for size in (10, 9_000, 5_000):
        tier.put_bytes(piece(), bytes(size))

    found, after = tier.statistics(), DiskTier(tmp_path, LARGE).statistics()

    assert tier.get_bytes(piece()) == bytes(5_000)
    assert (found.entries, found.bytes) == (after.entries, after.bytes) == (1, 8192)


def test_a_damaged_entry_is_a_miss_and_goes(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    replace_entries(tmp_path, lambda written: written[:-1] + b"?")

    assert tier.get_bytes(piece()) is None

    assert entries(tmp_path) == []
    statistics = tier.statistics()
    assert (statistics.corrupt, statistics.misses, statistics.entries, statistics.bytes) == (1, 1, 0, 0)


def test_an_entry_under_another_ones_name_is_not_believed(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    (first,) = entries(tmp_path)
    tier.put_bytes(piece("db.db/secret"), b"secret")
    (second,) = set(entries(tmp_path)) - {first}
    second.rename(first)

    assert tier.get_bytes(piece()) is None
    assert tier.statistics().corrupt == 1


@pytest.mark.parametrize("kind", ["pipe", "link", "directory", "stranger's file"])
def test_what_is_no_file_of_this_user_is_a_miss(tmp_path: Path, kind: str) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    tier.put(KEY, {"a": pa.array([1])})
    for path in entries(tmp_path):
        moved = path.rename(tmp_path / path.name)
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "link":
                path.symlink_to(moved)
            case "directory":
                path.mkdir()
            case _:
                if os.geteuid():
                    pytest.skip("only root makes files of others")
                moved.rename(path)
                os.chown(path, 1, 1)

    assert tier.get_bytes(piece()) is None
    assert tier.get(KEY) is None


def test_a_pipe_makes_way_for_what_is_read_again(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    (path,) = entries(tmp_path)
    path.unlink()
    os.mkfifo(path)

    tier.put_bytes(piece(), b"content")

    assert tier.get_bytes(piece()) == b"content"


def test_a_directory_that_goes_away_is_a_miss(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    shutil.rmtree(tmp_path / "entries-1")

    tier.put_bytes(piece("db.db/other"), b"content")

    assert tier.get_bytes(piece()) is None


def test_nobody_writes_to_entries(tmp_path: Path) -> None:
    DiskTier(tmp_path, LARGE).put_bytes(piece(), b"content")

    (path,) = entries(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o400


def test_only_the_owner_may_enter(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        DiskTier(tmp_path / "cache", LARGE).put_bytes(piece(), b"content")
    finally:
        os.umask(previous)
    directories = [
        tmp_path / "cache",
        tmp_path / "cache" / "entries-1",
        entries(tmp_path / "cache")[0].parent,
    ]
    assert [directory.stat().st_mode & 0o777 for directory in directories] == [0o700] * 3


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "entries-1").symlink_to(tmp_path / "elsewhere")

    tier = DiskTier(tmp_path / "cache", LARGE)
    tier.put_bytes(piece(), b"content")

    assert tier.get_bytes(piece()) is None
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(caplog.records) == 1


def test_a_directory_that_cannot_be_made_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")

    tier = DiskTier(tmp_path / "file" / "cache", LARGE)
    for _ in range(3):
        tier.put_bytes(piece(), b"content")
        assert tier.get_bytes(piece()) is None

    assert len(caplog.records) == 1
    assert tier.statistics().misses == 3


def test_a_directory_that_takes_no_more_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tier = DiskTier(tmp_path, LARGE)
    tier.put_bytes(piece(), b"content")
    (entry,) = entries(tmp_path)
    # A file where a directory should be fails for every user, root as well.
    for shard in range(256):
        if f"{shard:02x}" != entry.parent.name:
            (tmp_path / "entries-1" / f"{shard:02x}").write_bytes(b"")

    others = [piece(f"db.db/{name}") for name in range(20)]
    for other in others:
        tier.put_bytes(other, b"other")

    kept = [other for other in others if tier.get_bytes(other) is not None]
    assert len(kept) < len(others)
    assert len(caplog.records) == 1
    assert tier.get_bytes(piece()) == b"content"
    assert tier.statistics().entries == 1 + len(kept)
    assert not list((tmp_path / "entries-1").glob("tmp-*"))


def test_the_size_is_bounded_and_the_last_used_stay(tmp_path: Path) -> None:
    block, capacity = 4096, 100 * 4096
    tier = DiskTier(tmp_path, capacity)
    used = piece("used")
    tier.put_bytes(used, bytes(block // 2))
    for number in range(300):
        tier.put_bytes(piece(f"{number}"), bytes(block // 2))
        oldest_first = sorted(entries(tmp_path), key=lambda entry: entry.stat().st_mtime_ns)
        for age, entry in enumerate(oldest_first if number % 50 == 49 else ()):
            os.utime(entry, (age, age))
        assert tier.get_bytes(used) is not None
        assert tier.statistics().bytes <= capacity

    assert sum(found.stat().st_size for found in entries(tmp_path)) <= capacity
    assert tier.get_bytes(piece("299")) is not None
    assert tier.get_bytes(piece("0")) is None
    statistics = tier.statistics()
    assert statistics.evictions == 301 - statistics.entries > 100
    tier.put_bytes(piece("larger than all"), bytes(capacity + 1))
    assert tier.get_bytes(piece("larger than all")) is None


def test_what_ended_writers_left_is_removed_in_the_end(tmp_path: Path) -> None:
    DiskTier(tmp_path, LARGE)
    for name, age in (("tmp-old", 0), ("tmp-new", None)):
        file = tmp_path / "entries-1" / name
        file.write_bytes(b"half an en")
        if age is not None:
            os.utime(file, (age, age))

    DiskTier(tmp_path, LARGE)

    assert [found.name for found in entries(tmp_path)] == ["tmp-new"]


def test_a_smaller_capacity_holds_after_a_restart(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, LARGE)
    for number in range(50):
        tier.put_bytes(piece(f"{number}"), bytes(4000))

    assert DiskTier(tmp_path, 10 * 4096).statistics().bytes <= 10 * 4096
    assert len(entries(tmp_path)) <= 10


def test_processes_and_threads_share_a_directory(tmp_path: Path) -> None:
    script = f"""
from app.storage.disk import DiskTier
from app.storage.disk.disk_tier import entry_key
tier = DiskTier({str(tmp_path)!r}, 64 * 4096)
for turn in range(300):
    name = str(turn % 97)
    kept = entry_key("main", name, None, 0, None)
    found = tier.get_bytes(kept)
    assert found in (None, name.encode() * 100), name
    tier.put_bytes(kept, name.encode() * 100)
assert tier.statistics().corrupt == 0
"""
    root = Path(__file__).parent.parent.parent
    processes = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script], cwd=root, stderr=subprocess.PIPE)  # noqa: S603
        for _ in range(2)
    ]
    tier = DiskTier(tmp_path, 64 * 4096)

    def use(number: int) -> bytes | None:
        kept = piece(f"{number % 50}")
        tier.put_bytes(kept, b"%d" % (number % 50))
        return tier.get_bytes(kept)

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(use, range(400))):
            assert found in (None, b"%d" % (number % 50))
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, b"")
    assert tier.statistics().corrupt == 0
    assert DiskTier(tmp_path, 64 * 4096).statistics().bytes <= 64 * 4096
