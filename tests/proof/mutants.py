"""``python -m tests.proof.mutants``: plants wrong skips into the planner, and sees whether tests find them.

Each mutant is one change in a copy of the tree, of a line or two. It is found if a test of ``make test``
fails. Those of the module run first, then those that hold plans against rows, then those of what plans.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

TREE: Final = Path(__file__).parent.parent.parent
_COPIED: Final = ("app", "benchmarks", "client", "demo", "tests", "pyproject.toml", "openapi.yaml")
MARKS: Final = "not shared and not engine and not jvm and not helm and not spark and not long"
_ROUNDS: Final = (
    ("tests/proof/test_pairs.py", "tests/proof/test_time_travel.py"),
    ("tests/planning",),
    ("tests/table", "tests/file_index", "tests/global_index", "tests/predicates", "tests/api"),
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong skip.

    Attributes:
        step: of the planner.
        path: of the module, below ``app``.
        old: what stands there once.
        new: what is planted instead.
    """

    step: str
    path: str
    old: str
    new: str

    def plant(self, tree: Path) -> str:
        """Change a copy of the tree; return what the module was."""
        module = tree / "app" / self.path
        source = module.read_text()
        module.write_text(self.planted(source))
        return source

    def planted(self, source: str) -> str:
        """Return the module with the change.

        Raises ValueError if what is to be changed does not stand there once.
        """
        if (count := source.count(self.old)) != 1:
            raise ValueError(
                f"app/{self.path} has {self.old!r} {count} times: adapt the mutant {self.step!r}"
            )
        return source.replace(self.old, self.new)


_SCAN: Final = "planning/scan"
MUTANTS: Final = (
    Mutant(
        "Iceberg: names of the newest schema alone",
        "iceberg/schema.py",
        "field is not None and field.id == present.id and same_type(field, present) for field in candidates",
        "field is not None for field in candidates",
    ),
    Mutant(
        "partition: IS NULL",
        f"{_SCAN}/partition_pruning.py",
        "null_count=np.where(known, 0, 1)",
        "null_count=np.zeros(len(known), np.int64)",
    ),
    Mutant(
        "partition: filters of other partitions",
        f"{_SCAN}/partition_pruning.py",
        "state.predicate_codes = codes[state.files.columns.partition_codes]",
        "state.predicate_codes = codes[state.files.columns.partition_codes] * 0",
    ),
    Mutant(
        "manifests: undecided ones are not read",
        f"{_SCAN}/partition_pruning.py",
        "evaluate_bounds(predicate, bounds, bounded) != Verdict.NONE",
        "evaluate_bounds(predicate, bounds, bounded) == Verdict.ALL",
    ),
    Mutant(
        "manifests: bounds of another column",
        f"{_SCAN}/partition_pruning.py",
        "field.type, place, len(places))",
        "field.type, 0, len(places))",
    ),
    Mutant(
        "fixed buckets: the declared number, not the file's",
        f"{_SCAN}/bucket_pruning.py",
        "buckets_of(function, fields_of(keys, types), len(keys), total)",
        "buckets_of(function, fields_of(keys, types), len(keys), self.version.schema.options.bucket)",
    ),
    Mutant(
        "fixed buckets: one zero of two",
        f"{_SCAN}/bucket_pruning.py",
        "            yield -0.0\n            yield 0.0",
        "            yield 0.0",
    ),
    Mutant(
        "fixed buckets: NaN is pinned",
        f"{_SCAN}/bucket_pruning.py",
        "return None if any(literal != literal for literal in literals) else frozenset(literals)",
        "return frozenset(literals)",
    ),
    Mutant(
        "buckets: OR as AND",
        f"{_SCAN}/bucket_pruning.py",
        " if len(bounded) == len(sets) else None",
        "",
    ),
    Mutant(
        "dynamic buckets: unreadable hash indexes hold nothing",
        f"{_SCAN}/bucket_pruning.py",
        "index.holding(hashes) | {entry.bucket for entry, _ in failures}",
        "index.holding(hashes)",
    ),
    Mutant(
        "dynamic buckets: those without a hash index hold nothing",
        f"{_SCAN}/bucket_pruning.py",
        "without = {entry.bucket for entry in entries} - holding",
        "without = set(buckets.tolist()) - holding",
    ),
    Mutant(
        "key statistics: undecided files go",
        f"{_SCAN}/value_filter.py",
        "state.skip(batch[verdicts == Verdict.NONE], SkipStep.KEY_STATISTICS",
        "state.skip(batch[verdicts != Verdict.ALL], SkipStep.KEY_STATISTICS",
    ),
    Mutant(
        "statistics: a bound is outside",
        "predicates/verdicts.py",
        "return self.has_high & less(self.high, literal)",
        "return self.has_high & ~less(literal, self.high)",
    ),
    Mutant(
        "statistics: bounds that are not known",
        "predicates/verdicts.py",
        "return self.has_low & less(literal, self.low)",
        "return less(literal, self.low)",
    ),
    Mutant(
        "statistics: NaN is within the bounds",
        "planning/version/file_bounds.py",
        "may_hold_nan=bounds.may_hold_nan | ~holds_one_value(bounds)",
        "may_hold_nan=bounds.may_hold_nan",
    ),
    Mutant(
        "statistics: bounds that are NaN",
        "table/statistics/statistics.py",
        "has_low=stated.has_low & ~poisoned,",
        "has_low=stated.has_low,",
    ),
    Mutant(
        "statistics: timestamps that are cut",
        "table/statistics/statistics.py",
        "return replace(stated, high=_up_to_next(NANOS_PER_MICRO, stated.high, stated.has_high))",
        "return stated",
    ),
    Mutant(
        "statistics: bounds of few files are those of others",
        "planning/version/file_bounds.py",
        "pieces.append(read(manifest, rows, column=column",
        "pieces.append(read(manifest, rows - rows[0], column=column",
    ),
    Mutant(
        "statistics: slots that are not stored are NULL",
        "table/statistics/statistics.py",
        "absent = column.id not in file_schema.by_id",
        "absent = True",
    ),
    Mutant(
        "statistics: a cast that reorders",
        "table/statistics/casts.py",
        "    if written.root in INTEGER_BITS:\n        return _cast_integer(written, present)",
        "    if written.root in INTEGER_BITS:\n        return _unchanged",
    ),
    Mutant(
        "file indexes: a column by its name",
        f"{_SCAN}/index_filter.py",
        "written = file_schema.by_id.get(field.id)",
        "written = file_schema.by_name.get(field.name)",
    ),
    Mutant(
        "file indexes: literals in the new type",
        f"{_SCAN}/index_filter.py",
        "return bind_test(leaf_now, written)",
        "return BoundLeaf(leaf.operator, written, leaf.literals)",
    ),
    Mutant(
        "file indexes: damaged ones hold nothing",
        f"{_SCAN}/index_filter.py",
        "state.keep(at, KeepReason.INDEX_UNREADABLE)",
        "state.skip(at, SkipStep.FILE_INDEX)",
    ),
    Mutant(
        "file indexes: an empty one has no NULL",
        "file_index/index_kinds.py",
        "        Operator.IS_NOT_NULL,\n",
        "        Operator.IS_NOT_NULL,\n        Operator.IS_NULL,\n",
    ),
    Mutant(
        "file indexes: OR as AND",
        "file_index/evaluation.py",
        "answers[pending] = form.either(answers[pending], self.answer(part, at[pending]))",
        "answers[pending] = self.answer(part, at[pending])",
    ),
    Mutant(
        "bloom filters: the last key alone",
        "file_index/bloom_filter/stack.py",
        "            for key in condition.keys:\n                self._find(",
        "            for key in condition.keys[-1:]:\n                self._find(",
    ),
    Mutant(
        "bitmaps: no NULL",
        "file_index/bitmap/stack.py",
        "return where(self.with_nulls, Answer.ROWS)",
        "return where(self.with_nulls & (self.directory.distinct == 0), Answer.ROWS)",
    ),
    Mutant(
        "range bitmaps: an end is outside",
        "file_index/range_bitmap/stack.py",
        "return where(self.dictionary.for_searches().having_between(start, stop), Answer.ROWS)",
        "return where(self.dictionary.for_searches().having_between(start if start is None else start + 1"
        " if isinstance(start, int) else start, stop), Answer.ROWS)",
    ),
    Mutant(
        "BSI: negative values",
        "file_index/bsi/stack.py",
        "return np.maximum(self.positive.among(values), self.negative.among(absolutes))",
        "return self.positive.among(values)",
    ),
    Mutant(
        "rows of an index: the values that are not listed",
        "file_index/answers.py",
        "matching = index.value_rows() - index.rows_with(keys)",
        "matching = index.null_rows()",
    ),
    Mutant(
        "deletion vectors: what is deleted is left",
        f"{_SCAN}/live_rows.py",
        "return positions - deleted\n",
        "return positions & deleted\n",
    ),
    Mutant(
        "deletion vectors: of files that nobody counted",
        f"{_SCAN}/live_rows.py",
        "needed = narrowed | listed | (deleted == UNKNOWN_CARDINALITY)",
        "deleted = np.where(deleted == UNKNOWN_CARDINALITY, row_counts, deleted)\n"
        "        needed = narrowed | listed",
    ),
    Mutant(
        "merging: a file without a match goes alone",
        f"{_SCAN}/planner.py",
        "            is_kept[units.numbers[kept]] = True",
        "            is_kept[units.numbers[kept]] = False",
    ),
    Mutant(
        "merging: partial updates are judged like replaced rows",
        "table/schema/schema.py",
        "return self.options.merge_engine if self.primary_keys else None",
        "return MergeEngine.DEDUPLICATE if self.primary_keys else None",
    ),
    Mutant(
        "merging: key ranges that reach over the next one",
        f"{_SCAN}/merge_units.py",
        "reach = np.maximum.accumulate(ends)",
        "reach = ends",
    ),
    Mutant(
        "merging: files with removed keys are read straight",
        f"{_SCAN}/merge_units.py",
        "alone & (without_deletes | plain)[order][starts]",
        "alone",
    ),
    Mutant(
        "global indexes: of columns that were updated",
        f"{_SCAN}/indexed_ranges.py",
        "groups.same_rows & (holders == 1)",
        "groups.same_rows & (holders >= 1)",
    ),
    Mutant(
        "global indexes: of a table that forbids them",
        "planning/version/contents.py",
        "not schema.options.global_index_read",
        "False",
    ),
    Mutant(
        "global indexes: of updates that a former schema ignored",
        f"{_SCAN}/indexed_ranges.py",
        "if any(entry.file.file_name in doubtful for entry in entries):",
        "if False:",
    ),
    Mutant(
        "global indexes: keys of another type",
        f"{_SCAN}/indexed_ranges.py",
        "if all(same_keys(each, column.type) for each in types):",
        "if types:",
    ),
    Mutant(
        "global indexes: rows that none covers",
        f"{_SCAN}/global_indexes.py",
        "return every - of_test.rows | every & of_test.possible, every & of_test.certain",
        "return every & of_test.possible, every & of_test.certain",
    ),
    Mutant(
        "global indexes: a file of a range is missing",
        f"{_SCAN}/indexed_ranges.py",
        "if missing > 0:",
        "if missing < 0:",
    ),
    Mutant(
        "global indexes: a file that cannot be read",
        f"{_SCAN}/global_indexes.py",
        "                failed.add(job.of_range)\n                continue",
        "                pass",
    ),
    Mutant(
        "global indexes: one zero of two",
        "global_index/keys.py",
        "numbers[numbers == -1] = 0",
        "numbers[numbers == -1] = -1",
    ),
    Mutant(
        "data evolution: the oldest file has a column's values",
        f"{_SCAN}/row_id_groups.py",
        "order = np.lexsort((files, -sequence, ~is_data, numbers))",
        "order = np.lexsort((files, sequence, ~is_data, numbers))",
    ),
    Mutant(
        "data evolution: files of a row go one by one",
        f"{_SCAN}/data_evolution.py",
        "gone = np.isin(groups.anchors, deleted)\n    state.keep(",
        "gone = np.isin(groups.anchors, deleted)\n    (lambda *_: None)(",
    ),
    Mutant(
        "top-n: rows that tie",
        f"{_SCAN}/first_rows.py",
        "behind = np.where(standings.has_best, standings.best > threshold, ~standings.may_have_values)",
        "behind = np.where(standings.has_best, standings.best >= threshold, ~standings.may_have_values)",
    ),
    Mutant(
        "top-n: rows that only may match",
        f"{_SCAN}/first_rows.py",
        "sure = np.where(exact, state.rows_left[files], 0)\n    beyond",
        "sure = state.rows_left[files]\n    beyond",
    ),
    Mutant(
        "top-n: leading NULLs",
        f"{_SCAN}/first_rows.py",
        "movable = ~standings.may_have_nulls if nulls_first else np.ones(len(standings.best), np.bool_)",
        "movable = np.ones(len(standings.best), np.bool_)",
    ),
    Mutant(
        "limit: rows that only may match",
        f"{_SCAN}/first_rows.py",
        "sure = np.where(state.is_exact(files), state.rows_left[files], 0)",
        "sure = state.rows_left[files]",
    ),
    Mutant(
        "conditions: the values of one test of several",
        "predicates/simplify.py",
        "chain.from_iterable(leaf.literals for leaf in leaves)",
        "leaves[0].literals",
    ),
)


def copy_tree(tree: Path) -> None:
    """Copy what tests need into an empty directory, in which mutants are planted."""
    for name in _COPIED:
        if (TREE / name).is_dir():
            shutil.copytree(TREE / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(TREE / name, tree / name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.mutants", description=__doc__)
    parser.add_argument("--step", default="", help="only mutants whose step has this text")
    asked = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if asked.step in mutant.step]
    missed = 0
    with TemporaryDirectory(prefix="paimon-index-mutants-") as directory:
        tree = Path(directory)
        copy_tree(tree)
        for mutant in chosen:
            started = time.monotonic()
            source = mutant.plant(tree)
            finder = _finder(tree, mutant)
            (tree / "app" / mutant.path).write_text(source)
            missed += finder is None
            seconds = time.monotonic() - started
            print(f"| {mutant.step} | {finder or 'NOT FOUND'} | {seconds:.0f} s |", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed else 0


def _finder(tree: Path, mutant: Mutant) -> str | None:
    """Return the first test that fails. Return None if none does."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'client'}", "PYTHONDONTWRITEBYTECODE": "1"}
    module = Path("tests", mutant.path)
    mirror = module.with_name(f"test_{module.name}")
    for part in ((str(mirror),), *_ROUNDS) if (tree / mirror).exists() else _ROUNDS:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", MARKS, *part]
        ran = subprocess.run(  # noqa: S603 - ours
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode != 0:
            failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return failed[0].split(" ")[1] if failed else f"{part[0]}, which ended with {ran.returncode}"
    return None


if __name__ == "__main__":
    sys.exit(main())
