"""What every plan of a golden query must satisfy, however it was asked for (library or HTTP).

*Safety* is held against the rows that are really in the files; *power* against the engine: what its planning
and its read-time index evaluation drop together, we drop too.

Checks of golden data are many in one case: to collect thousands of cases takes longer than they do.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One kept file of a plan.

    Attributes:
        positions: selected rows; None for every row of the file.
        deletion: the vector's place as the contract states it.
    """

    raw_convertible: bool
    row_count: int
    positions: frozenset[int] | None
    deletion: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """One recorded query of one golden table."""

    table: str
    expected: Mapping[str, Any]
    query: Mapping[str, Any]

    def __str__(self) -> str:
        at = [
            f"{key}={self.query[key]}"
            for key in ("snapshot_id", "tag", "branch")
            if self.query[key] is not None
        ]
        return " ".join([self.table, self.query["name"], *at])

    @property
    def version(self) -> Mapping[str, Any]:
        wanted = {key: self.query[key] for key in ("snapshot_id", "tag", "branch")}
        found: Mapping[str, Any] = next(each for each in self.expected["versions"] if each["at"] == wanted)
        return found


def positions(recorded: Iterable[Any]) -> set[int]:
    """Expand the recorded form: numbers and inclusive ``[first, last]`` runs."""
    expanded: set[int] = set()
    for each in recorded:
        expanded.update(range(each[0], each[1] + 1) if isinstance(each, list) else (each,))
    return expanded


def char_functions(written: Mapping[str, Any]) -> set[str]:
    """Return functions that compare CHAR columns: the engine asks for one form of a literal, ours for all."""
    if written["kind"] == "COMPOUND":
        return set().union(*map(char_functions, written["children"]))
    field = written.get("transform", {}).get("fieldRef", {})
    is_char = bool(written["literals"]) and str(field.get("type", "")).startswith("CHAR")
    return {written["function"]} if is_char else set()


def check(golden: GoldenQuery, kept: Mapping[str, KeptFile], *, is_decided: bool = True) -> None:
    """Assert safety, power (where the whole filter is decided) and the deletion vectors of one plan."""
    query = golden.query
    if query["topn"] is not None:
        _holds_the_first_rows(query, kept)
    elif query["limit"] is not None:
        _holds_enough_rows(query, kept)
    else:
        _holds_every_match(query, kept)
        _keeps_merge_groups_right(golden, kept)
    if is_decided:
        _drops_what_the_engine_drops(golden, kept)
    _names_deletion_vectors(golden, kept)


def _selects(kept: Mapping[str, KeptFile], file: str, position: int) -> bool:
    found = kept.get(file)
    return found is not None and (found.positions is None or position in found.positions)


def _holds_every_match(query: Mapping[str, Any], kept: Mapping[str, KeptFile]) -> None:
    for file, recorded in (query["matching"] or {}).items():
        assert file in kept, f"{file} holds matching rows but was skipped"
        chosen = kept[file].positions
        assert chosen is None or positions(recorded) <= chosen, f"matching rows of {file} are not selected"


def _holds_enough_rows(query: Mapping[str, Any], kept: Mapping[str, KeptFile]) -> None:
    matching = {file: positions(recorded) for file, recorded in (query["matching"] or {}).items()}
    held = sum(_selects(kept, file, position) for file, rows in matching.items() for position in rows)
    assert held >= min(query["limit"], sum(map(len, matching.values())))


def _holds_the_first_rows(query: Mapping[str, Any], kept: Mapping[str, KeptFile]) -> None:
    values = query["topn_values"]
    if not values:
        return
    last = values[-1]
    ties_held = 0
    for file, rows in query["topn_candidates"].items():
        for position, key in rows:
            held = _selects(kept, file, position)
            if key == last:
                ties_held += held
            else:
                assert held, f"row {position} of {file} is among the first but was left out"
    assert ties_held >= sum(value == last for value in values)


def _keeps_merge_groups_right(golden: GoldenQuery, kept: Mapping[str, KeptFile]) -> None:
    query = golden.query
    groups = golden.version.get("merge_groups") or ()
    matches = set(query.get("group_matches") or ())
    entry_matches = {tuple(each) for each in query.get("entry_matches") or ()}
    undecided = set(query.get("group_open") or ())
    for group in groups:
        number, entries = group["id"], group["entries"]
        present = [at for at, entry in enumerate(entries) if entry[0] in kept]
        if "entry_matches" in query:
            first_wins = golden.expected["merge_engine"] == "first-row"
            by_sequence = sorted(present, key=lambda at: entries[at][2], reverse=not first_wins)
            winner = by_sequence[0] if by_sequence else None
            assert ((number, winner) in entry_matches) == (number in matches), f"merge group {number} changed"
        elif number in undecided:
            assert len(present) == len(entries) or (not present and number not in matches), (
                f"merge group {number} was torn apart"
            )


def _drops_what_the_engine_drops(golden: GoldenQuery, kept: Mapping[str, KeptFile]) -> None:
    query = golden.query
    # Where files hold columns of the same rows, what the index of one of them says is no answer.
    engine = query["planned_files" if query["matching"] is None else "engine_index_kept"]
    is_top_n, is_limit = query["topn"] is not None, query["limit"] is not None
    # Top-n with a filter is a defect of the engine, whether or not it hit the rows of this query.
    if engine is None or (is_top_n and query["filter_sql"] is not None):
        return
    if query["predicate"] is not None and char_functions(query["predicate"]) - {"EQUAL", "IN"}:
        return
    rows_of = {each["file"]: each for each in engine}
    # Where the engine lost rows of this query, it is no measure of which others it may drop.
    truth = query["matching"] if query.get("engine_differs") else {}
    for file, ours in kept.items():
        if file not in rows_of:
            assert file in truth or (is_top_n and _may_be_first(golden, kept, file)), (
                f"the engine drops {file}, we keep it"
            )
            continue
        recorded = rows_of[file]
        if recorded.get("result") != "BITMAP" or file in truth or is_limit:
            continue
        allowed = positions(recorded["positions"])
        if is_top_n and allowed & _deleted(golden, file):
            # 64-bit vectors are not taken out of the rows that the engine narrows: its choice is none.
            continue
        ours_selects = range(ours.row_count) if ours.positions is None else ours.positions
        assert allowed.issuperset(ours_selects), f"the engine leaves out rows of {file} that we select"


def _may_be_first(golden: GoldenQuery, kept: Mapping[str, KeptFile], file: str) -> bool:
    """Whether top-n may keep a file that the engine drops.

    Among files that tie any choice is right, as long as it is not larger than the engine's. And the maximum
    of a floating column does not count NaN in the formats that leave it out, so it bounds nothing.
    """
    order = golden.query["topn"]["orders"][0]
    types = {field["name"]: str(field["type"]) for field in golden.expected["schema"]["fields"]}
    is_floating = types[order["column"]].split()[0] in ("FLOAT", "DOUBLE")
    if is_floating and order["direction"] == "DESC" and not file.endswith(".parquet"):
        return True
    return len(kept) <= len(golden.query["engine_index_kept"])


def _deleted(golden: GoldenQuery, file: str) -> set[int]:
    found = next(each["deletion"] for each in golden.version["files"] if each["file"] == file)
    return set() if found is None else positions(found["positions"])


def _names_deletion_vectors(golden: GoldenQuery, kept: Mapping[str, KeptFile]) -> None:
    recorded = {each["file"]: each["deletion"] for each in golden.version["files"]}
    for file, ours in kept.items():
        expected = recorded[file]
        if expected is None or not golden.expected["deletion_vectors"]:
            assert ours.deletion is None
            continue
        assert ours.deletion is not None
        place = ("offset", "length", "cardinality")
        assert {key: ours.deletion[key] for key in place} == {key: expected[key] for key in place}
        assert ours.deletion["path"].endswith(expected["path"])
        if ours.positions is not None:
            assert not ours.positions & positions(expected["positions"]), (
                f"deleted rows of {file} are selected"
            )


Check: TypeAlias = Callable[..., None]


def together(group: str, member: str, members: Mapping[str, Sequence[Any]]) -> Callable[[Check], Check]:
    """Have a check run over all members of a group in one case; a failure tells of which member it is."""

    def decorate(check: Check) -> Check:
        takes_group = group in inspect.signature(check).parameters

        def case(**arguments: Any) -> None:
            name = arguments[group] if takes_group else arguments.pop(group)
            _run(check, arguments, member, members[name])

        names = [name for name in inspect.signature(check).parameters if name not in (group, member)]
        cases: Check = pytest.mark.parametrize(group, [*members])(_named(case, check, [*names, group]))
        return cases

    return decorate


def for_each(member: str, members: Iterable[Any]) -> Callable[[Check], Check]:
    """Have a check run over all members in one case; failures tell of which members they are."""

    def decorate(check: Check) -> Check:
        def case(**arguments: Any) -> None:
            _run(check, arguments, member, members)

        names = [name for name in inspect.signature(check).parameters if name != member]
        return _named(case, check, names)

    return decorate


def _run(check: Check, arguments: Mapping[str, Any], member: str, members: Iterable[Any]) -> None:
    failures = []
    for one in members:
        try:
            check(**arguments, **{member: one})
        except Exception as error:  # noqa: BLE001 - all are told together
            error.add_note(f"{member} {one!s:.200}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{check.__name__}: {len(failures)} failed", failures)


def _named(case: Check, check: Check, names: Sequence[str]) -> Check:
    """Return the case as pytest sees it: named as the check, with these arguments."""
    case.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # what pytest reads
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    case.__name__, case.__doc__, case.__module__ = check.__name__, check.__doc__, check.__module__
    return case
