"""The filter inside of each partition, beside every test decided partition by partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given

from app.planning.plan.file_plan import SkipStep
from app.planning.plan.state import PlanState, decision
from app.planning.scan.partition_pruning import prune_partitions, specialise
from app.planning.version.version import Version
from app.predicates.model import ALWAYS_FALSE, BoundLeaf, BoundPredicate, Operator, leaves
from app.predicates.verdicts import matches
from app.types import Value
from app.types.binary_row.row import serialize_row
from tests.examples import examples
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable, no_statistics
from tests.planning.strategies import FIELDS, NAME, RATIO, pool, predicates
from tests.table.entries import entry

KEYS = (NAME, RATIO)


class Partitioned(NamedTuple):
    """A table with a file in each partition, in some order, and the values of these."""

    version: Version
    partitions: list[dict[int, Value | None]]


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partitioned]:
    root = tmp_path_factory.mktemp("warehouse")
    made = MadeTable.make(root, FIELDS, partitioned_by=KEYS)
    values = list(product(*((None, *pool(key.type)) for key in KEYS)))
    files = [
        entry(partition=serialize_row(row, [key.type for key in KEYS]), file_name=str(at), **no_statistics())
        for at, row in enumerate(values)
    ]
    made.commit(files[::2], files[1::2], [entry(partition=files[3].partition, file_name="another")])
    order = [*values[::2], *values[1::2], values[3]]
    with closing(open_service(root)) as service:
        yield Partitioned(
            made.version(service), [dict(zip((key.id for key in KEYS), row, strict=True)) for row in order]
        )


def inside(predicate: BoundPredicate, partition: dict[int, Value | None]) -> BoundPredicate:
    tests = [leaf for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)]
    decided = {id(test): matches(test, partition) is True for test in tests if test.field.id in partition}
    return specialise(predicate, decided) if decided else predicate


@pytest.mark.parametrize("explain", [False, True])
@given(predicate=predicates(with_unknown=True))
@examples(60)
def test_each_file_has_the_filter_of_its_partition(
    partitioned: Partitioned,
    predicate: BoundPredicate,
    explain: bool,  # noqa: FBT001 - a case
) -> None:
    files = partitioned.version.files()
    state = PlanState.start(files, files.all(), predicate, explain=explain)

    prune_partitions(state, partitioned.version)

    expected = [inside(predicate, partition) for partition in partitioned.partitions]
    left = [at for at, each in enumerate(expected) if each != ALWAYS_FALSE]
    assert state.left().tolist() == left
    found = {file: each for each, members in state.by_predicate(files.all()) for file in members.tolist()}
    assert [found[file] for file in range(len(files))] == expected
    steps = {decision(code) for code in state.decisions(files.all()).tolist() if code > 0}
    on_partitions = any(isinstance(leaf, BoundLeaf) and leaf.field in KEYS for leaf in leaves(predicate))
    assert steps <= {SkipStep.PARTITION if on_partitions else SkipStep.STATISTICS}
    if state.steps is not None:
        assert [bool(state.steps[file]) for file in range(len(files))] == [
            file not in left for file in range(len(files))
        ]


def test_only_asked_files_are_left_out(partitioned: Partitioned) -> None:
    files = partitioned.version.files()
    nothing = BoundLeaf(Operator.EQUAL, NAME, (b"no partition has this name",))
    state = PlanState.start(files, files.all()[3:5], nothing, explain=False)

    prune_partitions(state, partitioned.version)

    assert not len(state.left())
    assert (state.skips != 0).nonzero()[0].tolist() == [3, 4]
