"""The wrong skips that ``make mutants`` plants; here only that each still has its place."""

from __future__ import annotations

from pathlib import Path

from tests.golden_checks import for_each
from tests.proof.mutants import MUTANTS, Mutant

APP = Path(__file__).parent.parent.parent / "app"


@for_each("mutant", MUTANTS)
def test_a_mutant_changes_the_planner(mutant: Mutant) -> None:
    source = (APP / mutant.path).read_text()

    compile(mutant.planted(source), mutant.path, "exec")
