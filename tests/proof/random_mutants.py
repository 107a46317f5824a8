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
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

import libcst as cst
from libcst import matchers
from mutmut.mutation.mutators import (
    mutation_operators,
    operator_assignment,
    operator_lambda,
    operator_string,
)

from tests.proof.mutants import MARKS, copy_tree

PACKAGES: Final = (
    "bucket_index",
    "deletion_vectors",
    "file_index",
    "predicates",
    "table/statistics",
)
_UNTOUCHED: Final = (cst.Annotation, cst.Decorator, cst.Raise, cst.ImportFrom)
_STRICT: Final = matchers.Arg(keyword=matchers.Name("strict"))
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

    def tests(self, tree: Path) -> list[str]:
        module = Path("tests", self.path)
        package = next(each for each in PACKAGES if module.is_relative_to(Path("tests", each)))
        nearest = (module.with_name(f"test_{module.name}"), *module.parents)
        return [
            str(path)
            for path in nearest
            if path.is_relative_to(Path("tests", package)) and (tree / path).exists()
        ]

    def diff(self, before: str) -> str:
        """Return lines taken from and added to the module, in the form of a patch without surroundings."""
        _, _, *lines = difflib.unified_diff(before.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(lines)


class _Changes(cst.CSTVisitor):  # type: ignore[misc] # libcst has an environment of its own
    """Every change of a module: a node, and what may stand there instead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _UNTOUCHED) or matchers.matches(node, _STRICT):
            return False
        for kind, operator in mutation_operators:
            if operator not in _TRIVIAL and isinstance(node, kind):
                self.found.extend((node, new) for new in operator(node) if not _is_trivial(node, new))
        return True


def _is_trivial(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    """Whether an argument of a call has become None, or is missing that has no name or is ``strict``."""
    if not (isinstance(old, cst.Call) and isinstance(new, cst.Call)) or old.func is not new.func:
        return False
    names = [[argument.keyword.value for argument in call.args if argument.keyword] for call in (old, new)]
    return len(names[0]) == len(names[1]) or names[0].count("strict") != names[1].count("strict")


class _Module:
    """A module below ``app``, and its changes in an order that repeats."""

    def __init__(self, app: Path, path: str) -> None:
        self._path = path
        self._parsed = cst.parse_module((app / path).read_text())
        changes = _Changes()
        self._parsed.visit(changes)
        self._changes = changes.found

    def __len__(self) -> int:
        return len(self._changes)

    def mutant(self, number: int) -> RandomMutant:
        changed = self._parsed.deep_replace(*self._changes[number])
        assert isinstance(changed, cst.Module)
        return RandomMutant(self._path, number, changed.code)


def main() -> int:
    """Run mutants that are drawn; print those that no test finds, and how many there are."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.random_mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many are drawn")
    parser.add_argument("--seed", default="1", help="of the drawing")
    parser.add_argument("--modules", default="", help="only modules whose path below app begins so")
    parser.add_argument(
        "--only", type=int, help="the mutant of this number, of the one module that --modules names"
    )
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="paimon-index-mutants-") as directory:
        tree = Path(directory, "0")
        tree.mkdir()
        copy_tree(tree)
        app = tree / "app"
        paths = [
            path
            for package in PACKAGES
            for path in sorted(str(module.relative_to(app)) for module in (app / package).rglob("*.py"))
            if path.startswith(options.modules)
        ]
        modules = [_Module(app, path) for path in paths]
        places = [(module, number) for module in modules for number in range(len(module))]
        if options.only is None:
            chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))
        else:
            chosen = [places[options.only]]
        print(f"{len(chosen)} of {len(places)} mutants of {len(modules)} modules", flush=True)
        mutants = [module.mutant(number) for module, number in chosen]
        for package in PACKAGES:
            if any(mutant.path.startswith(package) for mutant in mutants):
                outcome, finder = _run_tests(tree, [f"tests/{package}"], bytecode=True)
                if outcome != "survives":
                    parser.error(f"tests/{package} fails without a mutant: {finder}")
        trees: SimpleQueue[Path] = SimpleQueue()
        trees.put(tree)
        for number in range(1, options.processes):
            trees.put(shutil.copytree(tree, Path(directory, str(number))))
        outcomes: Counter[str] = Counter()

        def run(mutant: RandomMutant) -> None:
            tree = trees.get()
            started = time.monotonic()
            outcome, finder = _outcome(mutant, tree)
            seconds = time.monotonic() - started
            outcomes[outcome] += 1
            print(f"{outcome} {mutant.path} --only {mutant.number}: {finder} ({seconds:.0f} s)", flush=True)
            if outcome == "survives":
                print(mutant.diff((tree / "app" / mutant.path).read_text()), flush=True)
            trees.put(tree)

        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(run, mutants))
    print(", ".join(f"{outcome}: {count}" for outcome, count in sorted(outcomes.items())))
    return 0


def _limit() -> None:
    """Keep a mutant that runs or grows without end from doing so."""
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _outcome(mutant: RandomMutant, tree: Path) -> tuple[str, str]:
    """Return what becomes of a mutant, and the test that finds it."""
    module = tree / "app" / mutant.path
    before = module.read_text()
    module.write_text(mutant.source)
    try:
        return _run_tests(tree, mutant.tests(tree))
    finally:
        module.write_text(before)


def _run_tests(tree: Path, tests: Iterable[str], *, bytecode: bool = False) -> tuple[str, str]:
    """Run tests until one fails: an outcome, and the test.

    Bytecode is written before a mutant is planted, and never of a mutant.
    """
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "-m", MARKS]
    ran = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env={
            **os.environ,
            "PYTHONPATH": f"{tree}:{tree / 'client'}",
            "PYTHONDONTWRITEBYTECODE": "" if bytecode else "1",
        },
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_limit,
    )
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode == 0:
        return "survives", "no test"
    if ran.returncode == -signal.SIGXCPU:
        return "endless", f"{_PROCESSOR_SECONDS} s of a processor"
    return "found", failed[0].split(" ")[1] if failed else f"the tests end with {ran.returncode}"


if __name__ == "__main__":
    sys.exit(main())
