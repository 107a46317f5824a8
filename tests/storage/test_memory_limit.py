"""Limits of control groups, as Linux shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.storage.memory_limit import MemoryLimit

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


def test_without_groups_it_is_the_machine(system: System) -> None:
    assert system.limit() == MemoryLimit(MACHINE, "the machine's memory")


@pytest.mark.parametrize(("soft", "found"), [("3000000", 3_000_000), ("unlimited", MACHINE)])
def test_the_address_space_counts(system: System, soft: str, found: int) -> None:
    system.write(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             7000                 7000                 bytes     \n"
        f"Max address space         {soft:<20} unlimited            bytes     ",
    )

    assert system.limit().bytes == found


@pytest.mark.parametrize(("inner", "outer"), [("1000", "max"), ("max", "1000"), ("5000", "1000")])
def test_the_smallest_of_nested_groups_counts(system: System, inner: str, outer: str) -> None:
    system.write("proc/self/cgroup", "0::/pod/container")
    system.write("proc/self/mountinfo", V2.format(top="/"))
    system.write("sys/fs/cgroup/pod/container/memory.max", inner)
    system.write("sys/fs/cgroup/pod/memory.max", outer)

    assert system.limit().bytes == 1000


def test_a_group_that_is_slowed_down_above_a_size_counts_as_bounded_by_it(system: System) -> None:
    system.write("proc/self/cgroup", "0::/")
    system.write("proc/self/mountinfo", V2.format(top="/"))
    system.write("sys/fs/cgroup/memory.max", "max")
    system.write("sys/fs/cgroup/memory.high", "2000")

    assert system.limit() == MemoryLimit(2000, "/sys/fs/cgroup/memory.high")


def test_version_1_tells_by_controller(system: System) -> None:
    system.write("proc/self/cgroup", "5:devices:/other\n4:cpu,memory:/slice/unit\n0::/")
    system.write("proc/self/mountinfo", V1.format(top="/"))
    system.write("sys/fs/cgroup/memory/slice/unit/memory.limit_in_bytes", "9223372036854771712")
    system.write("sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "3000")

    assert system.limit().bytes == 3000


def test_a_container_sees_its_own_group_at_the_mount_point(system: System) -> None:
    system.write("proc/self/cgroup", "4:memory:/docker/abc")
    system.write("proc/self/mountinfo", V1.format(top="/docker/abc"))
    system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000")

    assert system.limit().bytes == 4000


def test_what_cannot_be_read_bounds_nothing(system: System) -> None:
    system.write("proc/self/cgroup", "0::/../../elsewhere")
    system.write("proc/self/mountinfo", V2.format(top="/"))
    system.write("sys/fs/cgroup/memory.max", "no number")

    assert system.limit().bytes == MACHINE
