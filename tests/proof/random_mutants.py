"""``make mutants RANDOM=100``: changes formats and predicates by chance, and sees whether tests find it.

Each mutant is one change in a copy of the tree, of those that mutmut knows: of an operator, a number, a
condition or an argument. A seed draws them. It is found if a test of the directories that mirror its module
fails. Left out are changes that only texts, types or errors show, and those that no test could miss, such as
``None`` for a value.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

import libcst as cst
from mutmut.mutation.mutators import (
    mutation_operators,
    operator_assignment,
    operator_lambda,
    operator_string,
)

from tests.proof.mutants import MARKS, TREE, copy_tree

ROOMS: Final = (
    "bucket_index",
    "deletion_vectors",
    "file_index",
    "java_orders",
    "predicates",
    "table/statistics",
)
_UNTOUCHED: Final = (cst.Annotation, cst.Decorator, cst.Raise, cst.ImportFrom)
_TRIVIAL: Final = {operator_assignment, operator_lambda, operator_string}
_PROCESSOR_SECONDS: Final = 90
_MEMORY_BYTES: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class RandomMutant:
    """A module with one change.

    Attributes:
        path: of the module, below ``app``.
        number: of the change, among those of the module.
        source: of the module, changed.
    """

    path: str
    number: int
    source: str

    def judges(self, tree: Path) -> list[str]:
        """Files and directories of tests that mirror the module, the nearest first."""
        module = Path("tests", self.path)
        room = next(Path("tests", room) for room in ROOMS if module.is_relative_to(Path("tests", room)))
        nearest = (module.with_name(f"test_{module.name}"), *module.parents)
        return [str(at) for at in nearest if at.is_relative_to(room) and (tree / at).exists()]

    def diff(self) -> str:
        """The lines taken away and added, in the form of a patch without surroundings."""
        before = (TREE / "app" / self.path).read_text().splitlines()
        _, _, *lines = difflib.unified_diff(before, self.source.splitlines(), n=0, lineterm="")
        return "\n".join(lines)


class _Changes(cst.CSTVisitor):  # type: ignore[misc] # libcst has an environment of its own
    """Every change of a module: a node, and what may stand there instead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _UNTOUCHED):
            return False
        for kind, operator in mutation_operators:
            if operator not in _TRIVIAL and isinstance(node, kind):
                self.found.extend((node, new) for new in operator(node) if not _breaks_call(node, new))
        return True


def _breaks_call(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    """Whether an argument of a call has become None, or is missing that has no name."""
    if not (isinstance(old, cst.Call) and isinstance(new, cst.Call)) or old.func is not new.func:
        return False
    named = [sum(argument.keyword is not None for argument in call.args) for call in (old, new)]
    return named[0] == named[1]


def _changes_of(path: str) -> tuple[cst.Module, list[tuple[cst.CSTNode, cst.CSTNode]]]:
    """A module below ``app``, and its changes in an order that repeats."""
    module = cst.parse_module((TREE / "app" / path).read_text())
    changes = _Changes()
    module.visit(changes)
    return module, changes.found


def mutant_of(path: str, number: int) -> RandomMutant:
    """The mutant of one change of a module below ``app``."""
    module, changes = _changes_of(path)
    changed = module.deep_replace(*changes[number])
    assert isinstance(changed, cst.Module)
    return RandomMutant(path, number, changed.code)


def main() -> int:
    """Runs mutants that are drawn; prints those that no test finds, and how many there are."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.random_mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many are drawn")
    parser.add_argument("--seed", default="1", help="of the drawing")
    parser.add_argument("--room", default="", help="only modules whose path below app begins so")
    parser.add_argument(
        "--only", type=int, help="the mutant of this number, of the one module that --room names"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    paths = sorted(
        str(at.relative_to(TREE / "app"))
        for room in ROOMS
        for at in (TREE / "app" / room).rglob("*.py")
        if str(at.relative_to(TREE / "app")).startswith(asked.room)
    )
    every = [(path, number) for path in paths for number in range(len(_changes_of(path)[1]))]
    if asked.only is None:
        chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
    else:
        chosen = [every[asked.only]]
    print(f"{len(chosen)} of {len(every)} mutants of {len(paths)} modules", flush=True)
    outcomes: Counter[str] = Counter()
    trees: SimpleQueue[Path] = SimpleQueue()

    def run(place: tuple[str, int]) -> None:
        mutant = mutant_of(*place)
        tree = trees.get()
        started = time.monotonic()
        outcome, finder = _outcome(mutant, tree)
        trees.put(tree)
        outcomes[outcome] += 1
        seconds = time.monotonic() - started
        print(f"{outcome} {mutant.path} --only {mutant.number}: {finder} ({seconds:.0f} s)", flush=True)
        if outcome == "SURVIVES":
            print(mutant.diff(), flush=True)

    with ExitStack() as stack:
        for _ in range(asked.processes):
            directory = stack.enter_context(TemporaryDirectory(prefix="paimon-index-mutants-"))
            copy_tree(Path(directory))
            trees.put(Path(directory))
        with ThreadPoolExecutor(asked.processes) as pool:
            list(pool.map(run, chosen))
    print(", ".join(f"{outcome}: {count}" for outcome, count in sorted(outcomes.items())))
    return 0


def _limit() -> None:
    """Keeps a mutant that runs or grows without end from doing so."""
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _outcome(mutant: RandomMutant, tree: Path) -> tuple[str, str]:
    """What becomes of a mutant, and the test that finds it."""
    module = tree / "app" / mutant.path
    before = module.read_text()
    module.write_text(mutant.source)
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-m", MARKS]
    try:
        ran = subprocess.run(  # noqa: S603 - ours
            [sys.executable, "-m", "pytest", *options, *mutant.judges(tree)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'client'}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=_limit,
        )
    finally:
        module.write_text(before)
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode == 0:
        return "SURVIVES", "no test"
    if ran.returncode == -signal.SIGXCPU:
        return "endless", f"{_PROCESSOR_SECONDS} s of a processor"
    return "found", failed[0].split(" ")[1] if failed else f"the tests end with {ran.returncode}"


if __name__ == "__main__":
    sys.exit(main())
