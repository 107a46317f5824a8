"""What keeps figures from their targets, for those that are known to miss them."""

from __future__ import annotations

import fnmatch
from typing import Final

COSTS_EXPLAINED: Final = (
    "A profile is that of our run under `cProfile`, in the thread that was asked: functions by their own "
    "share of its time."
)

_LIMITS: Final = {
    "pypaimon-rust in a new process, no index: * / cold plan*": (
        "both skip manifests by the bounds of partitions in their list; of what is read, we decode all, "
        "statistics of all columns included, and the peer what it is asked."
    ),
    "pypaimon-rust in a new process, * / cold plan*": (
        "blocks have to be expanded, and what is decoded stays in memory that the process never had before, "
        "0.7 to 1.2 GB of indexes; the peer looks at no index, and keeps none."
    ),
    "growth by 10 x size: cold plan, * side files: *": (
        "each file is opened, read and closed by itself, in the same time however many there are; but what "
        "is kept of 100,000 of them is 0.6 to 1.2 GB of memory that the kernel has to find and clear first, "
        "which 0.1 GB is at once."
    ),
    "planner of a warm plan, no index: half of the days, 10 columns": (
        "half of the files are judged by ten columns one after the other, which is 20 comparisons of 50,000 "
        "bounds that have to be gathered from ten manifests."
    ),
    "planner of a warm plan, bloom filters*": (
        "a probe is a read of memory far from the last one, and 100,000 files are at least two probes each."
    ),
    "memory of 4 processes / of one, no index": (
        "what is mapped is shared, and each process has about 2 MB besides, mostly objects of Python; "
        "without indexes there is hardly more to map."
    ),
    "warm plan, bloom filters, embedded: id IN*": (
        "each filter is asked about 150 keys before it seems to have one, which are reads all over its "
        "12 KB: the filters of 100,000 files are 1.2 GB, of which most comes from memory once."
    ),
    "S3, first plan: bloom filters in side files*": (
        "each of 3,000 files is one call, and the service and the proxy share two cores: a call takes "
        "0.26 ms of processor time in the service, evaluation included, and 0.1 ms in the proxy."
    ),
    "S3, first plan: *": (
        "100 manifests are read side by side, some rounds of calls; what is left is decoding them, and the "
        "proxy, which has the same cores."
    ),
    "S3, plans with budget_ms=*": (
        "the service looks at its budget after 128 files each, and a plan that is finished in the background "
        "has the cores as well."
    ),
    "growth by 10 x size: deleted positions as *": (
        "what is made of 1,000,000 positions is larger than the caches of a core, that of 100,000 is not."
    ),
    "growth by 10 x manifests: cost of one that is added": (
        "one manifest is decoded, however many there were, and its files follow the others in their memory; "
        "but a snapshot comes with a list of all of its manifests, which is read anew with each of them."
    ),
}
_UNKNOWN: Final = "no cause is known besides [the machine](../docs/benchmarks.md#figures)."


def limit_of(name: str) -> str:
    """Why a figure of this name may miss its target."""
    return next((limit for pattern, limit in _LIMITS.items() if fnmatch.fnmatch(name, pattern)), _UNKNOWN)
