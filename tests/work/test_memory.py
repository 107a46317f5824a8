"""Buffers that large files share."""

import contextlib
import mmap
import os
import threading
from pathlib import Path

import pytest

from app.errors import FileMissingError, LimitExceededError
from app.storage import Warehouse
from app.work.cores import Cores, waiting
from app.work.ledger import Ledger
from app.work.memory import MemoryLimit, Scratch, is_in_memory, resident_bytes_of

LARGE = 5 << 20


def address(view: memoryview) -> int:
    return memoryview(view).obj.ctypes.data  # type: ignore[attr-defined, no-any-return] # it is NumPy's


def test_a_buffer_serves_the_next_file_while_others_are_in_use() -> None:
    scratch = Scratch()
    with scratch.buffer(100):
        with scratch.buffer(1000) as one:
            first = address(one)
        with scratch.buffer(900) as another:
            assert (address(another), len(another)) == (first, 900)


def test_buffers_in_use_are_not_shared() -> None:
    scratch = Scratch()
    with scratch.buffer(100) as one, scratch.buffer(100) as another:
        assert address(one) != address(another)


def test_an_error_gives_the_buffer_back() -> None:
    scratch = Scratch()
    found = []
    with scratch.buffer(10):
        with contextlib.suppress(KeyError), scratch.buffer(1000) as one:
            found.append(address(one))
            raise KeyError
        with scratch.buffer(1000) as another:
            assert [address(another)] == found


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"end"
    (tmp_path / "file").write_bytes(content)
    warehouse = Warehouse("main", str(tmp_path))

    # What metadata says of the size may be wrong: a file that is longer is at least no longer seen as whole.
    for stated in (len(content), len(content) + 1, None):
        with warehouse.reading("file", stated) as found:
            assert bytes(found) == content
    with warehouse.reading("file", len(content) - 2) as found:
        assert len(found) > len(content) - 2


def test_errors_of_large_files_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(LARGE))
    warehouse = Warehouse("main", str(tmp_path), max_file_bytes=LARGE - 1)

    with pytest.raises(FileMissingError, match="none"), warehouse.reading("none", LARGE - 2):
        pass
    with pytest.raises(LimitExceededError), warehouse.reading("file", LARGE):
        pass


MACHINE = 8 << 30
V1 = "35 31 0:32 {top} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
V2 = "41 31 0:38 {top} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"


class System:
    """A root directory with the files that tell of limits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal:       {MACHINE >> 10} kB\nMemFree: 1 kB\n")

    def write(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")

    def limit(self) -> MemoryLimit:
        return MemoryLimit.detect(self.root)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_a_mount_tells_whether_files_are_in_memory(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mount = f"36 35 {os.major(device)}:{os.minor(device)} / /tmp rw - "
    root = tmp_path / "system"

    for filesystem, expected in (("tmpfs", True), ("ramfs", True), ("ext4", False)):
        System(root).write("proc/self/mountinfo", f"{mount}{filesystem} none rw")
        assert is_in_memory(str(tmp_path), root) is expected


def test_pages_of_files_in_memory_are_resident() -> None:
    # More than what other tests of this process may give back meanwhile.
    size = 256 << 20
    before = resident_bytes_of("self")
    with mmap.mmap(-1, size) as shared:
        for _ in range(size >> 20):
            shared.write(bytes(1 << 20))
        assert resident_bytes_of("self") - before > size // 2


def test_without_groups_it_is_the_machine(system: System) -> None:
    assert system.limit() == MemoryLimit(MACHINE, "the machine's memory")


@pytest.mark.parametrize(("soft", "found"), [("1073744824", 3_000), ("3000000", 0), ("unlimited", MACHINE)])
def test_the_address_space_counts_but_for_what_is_only_reserved(
    system: System, soft: str, found: int
) -> None:
    system.write(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             7000                 7000                 bytes     \n"
        f"Max address space         {soft:<20} unlimited            bytes     ",
    )

    assert system.limit().bytes == found


NESTED = "0::/pod/container"
INNER, OUTER = "sys/fs/cgroup/pod/container/memory.max", "sys/fs/cgroup/pod/memory.max"
IN_UNIT, IN_SLICE, AT_MOUNT = (
    f"sys/fs/cgroup/memory/{place}memory.limit_in_bytes" for place in ("slice/unit/", "slice/", "")
)


@pytest.mark.parametrize(
    ("groups", "mount", "files", "found"),
    [
        # The smallest of nested groups counts.
        (NESTED, V2.format(top="/"), {INNER: "1000", OUTER: "max"}, 1000),
        (NESTED, V2.format(top="/"), {INNER: "max", OUTER: "1000"}, 1000),
        (NESTED, V2.format(top="/"), {INNER: "5000", OUTER: "1000"}, 1000),
        # Version 1 tells by controller.
        (
            "5:devices:/other\n4:cpu,memory:/slice/unit\n0::/",
            V1.format(top="/"),
            {IN_UNIT: "9223372036854771712", IN_SLICE: "3000"},
            3000,
        ),
        # A container sees its own group at the mount point.
        ("4:memory:/docker/abc", V1.format(top="/docker/abc"), {AT_MOUNT: "4000"}, 4000),
        # What cannot be read bounds nothing.
        ("0::/../../elsewhere", V2.format(top="/"), {"sys/fs/cgroup/memory.max": "no number"}, MACHINE),
    ],
)
def test_groups_bound_the_memory(
    system: System, groups: str, mount: str, files: dict[str, str], found: int
) -> None:
    for path, content in {"proc/self/cgroup": groups, "proc/self/mountinfo": mount, **files}.items():
        system.write(path, content)

    assert system.limit().bytes == found


def test_a_group_that_is_slowed_down_above_a_size_counts_as_bounded_by_it(system: System) -> None:
    system.write("proc/self/cgroup", "0::/")
    system.write("proc/self/mountinfo", V2.format(top="/"))
    system.write("sys/fs/cgroup/memory.max", "max")
    system.write("sys/fs/cgroup/memory.high", "2000")

    assert system.limit() == MemoryLimit(2000, "/sys/fs/cgroup/memory.high")


PATIENCE_SECONDS = 20


def test_threads_that_wait_for_room_do_not_keep_the_one_that_has_it_from_ending() -> None:
    cores, ledger = Cores(1), Ledger(lambda: 0)
    ledger.limit = 1000
    begun, asked = threading.Event(), threading.Event()
    ended = list[str]()

    def work_slowly() -> None:
        with cores.computing(), ledger.claim("reads", 800):
            with waiting():
                begun.set()
                assert asked.wait(PATIENCE_SECONDS)
            ended.append("first")

    def work_at_once() -> None:
        with cores.computing():
            asked.set()
            with ledger.claim("reads", 800):
                ended.append("second")

    one, other = threading.Thread(target=work_slowly), threading.Thread(target=work_at_once)
    one.start()
    assert begun.wait(PATIENCE_SECONDS)
    other.start()
    for thread in (one, other):
        thread.join(PATIENCE_SECONDS)

    assert ended == ["first", "second"]


def test_a_thread_without_a_slot_lends_none() -> None:
    with waiting():
        pass


def test_who_has_computed_before_goes_first_and_then_the_newest() -> None:
    cores, begun, order = Cores(1), threading.Event(), list[str]()

    def compute(name: str, *, is_begun: bool = False) -> None:
        with cores.computing(is_begun=is_begun):
            order.append(name)

    def wait_and_go_on() -> None:
        with cores.computing():
            with waiting():
                begun.set()
                assert in_line.wait(PATIENCE_SECONDS)
            order.append("resumed")

    in_line = threading.Event()
    threads = [threading.Thread(target=wait_and_go_on)]
    threads[0].start()
    assert begun.wait(PATIENCE_SECONDS)
    with cores.computing():
        for name in ("older", "newer"):
            threads.append(threading.Thread(target=compute, args=(name,)))
            threads[-1].start()
            while cores.waiting < len(threads) - 1:
                pass
        in_line.set()
        while cores.waiting < len(threads):
            pass
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert order == ["resumed", "newer", "older"]
