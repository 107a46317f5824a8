"""The simulation of many replicas: what a reader may conclude from its rows."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from benchmarks.simulation import Cluster, Demand, Outcome, Replica, Ring, Source, simulate, table

FEW: Final = Cluster(tables=2_000, plans_per_second=200.0, seconds=60.0, replicas=4)
CRAMPED: Final = replace(FEW, memory_bytes=320 << 20, disk_bytes=100 << 20)
EVERYONE: Final = range(FEW.replicas)


def outcomes(cluster: Cluster, copies: int) -> list[Outcome]:
    ring = Ring(cluster.replicas, cluster.tables)
    return list(simulate(cluster, Demand(cluster), ring, copies))


def replica(cluster: Cluster = FEW) -> Replica:
    return Replica(cluster)


def test_the_same_seed_prints_the_same_table_and_another_one_a_different() -> None:
    small = replace(FEW, tables=200, seconds=6.0)

    assert list(table(small)) == list(table(small))
    assert list(table(small)) != list(table(replace(small, seed=2)))


def test_a_lost_replica_moves_its_own_tables_and_no_others() -> None:
    ring = Ring(FEW.replicas, FEW.tables)
    before = ring.owners(EVERYONE, 1)[:, 0]

    after = ring.owners([0, 1, 3], 1)[:, 0]

    assert (after[before != 2] == before[before != 2]).all()
    moved = np.bincount(after[before == 2], minlength=FEW.replicas)
    assert moved[2] == 0
    assert (moved[[0, 1, 3]] > 0).all()


def test_a_ring_gives_replicas_about_as_many_tables_and_each_table_different_replicas() -> None:
    owners = Ring(FEW.replicas, FEW.tables).owners(EVERYONE, 2)

    assert (owners[:, 0] != owners[:, 1]).all()
    tables = np.bincount(owners[:, 0])
    assert tables.min() > 0.7 * FEW.tables / FEW.replicas
    assert tables.max() < 1.3 * FEW.tables / FEW.replicas


def test_plans_share_the_core_evenly() -> None:
    alone, shared = replica(), replica()

    for one in (alone, shared):
        one.fill(np.array([7]), np.array([10]))
    alone.plan(0.0, 7, 10)
    for _ in range(3):
        shared.plan(0.0, 7, 10)
    alone.advance(1.0)
    shared.advance(1.0)

    (latency,) = alone.latencies
    call = latency - alone.work_seconds
    assert [each - call for each in shared.latencies] == pytest.approx([3 * (latency - call)] * 3)


def test_a_table_is_decoded_once_and_mapped_after_a_loss_of_memory() -> None:
    one = replica()

    first = one.plan(0.0, 7, 1_000)
    second = one.plan(1.0, 7, 1_000)
    one.fail()
    third = one.plan(2.0, 7, 1_000)

    assert (first, second, third) == (Source.STORE, Source.MEMORY, Source.DISK)


def test_the_least_recently_used_table_is_evicted() -> None:
    one = replica(replace(FEW, memory_bytes=(224 << 20) + 2 * 120_000))

    for table_number in (1, 2, 1, 3):
        one.plan(0.0, table_number, 10)

    assert one.plan(1.0, 1, 10) is Source.MEMORY
    assert one.plan(1.0, 2, 10) is Source.DISK


def test_a_failing_replica_loses_the_plans_that_it_is_making() -> None:
    one = replica()
    one.plan(0.0, 1, 10)
    one.plan(0.0, 2, 10)

    assert one.fail() == 2
    one.advance(10.0)
    assert one.latencies == []


def test_hashing_by_table_finds_more_tables_in_memory_than_round_robin() -> None:
    ring, round_robin = outcomes(CRAMPED, 1)[0], outcomes(CRAMPED, CRAMPED.replicas)[0]

    assert ring.shares[Source.MEMORY] > round_robin.shares[Source.MEMORY] + 0.05
    assert ring.plans_per_core > round_robin.plans_per_core


def test_round_robin_is_the_more_even() -> None:
    assert outcomes(FEW, FEW.replicas)[0].highest_load < outcomes(FEW, 1)[0].highest_load


@pytest.mark.parametrize("copies", [1, 2, FEW.replicas])
def test_only_a_loss_lets_plans_fail_and_it_costs_memory(copies: int) -> None:
    before, loss, after = outcomes(FEW, copies)

    assert before.failures == after.failures == 0
    assert loss.failures > 0
    assert after.shares[Source.MEMORY] < before.shares[Source.MEMORY]


def test_a_third_of_the_time_answers_as_many_plans_as_come() -> None:
    for each in outcomes(FEW, 1):
        assert sum(each.shares.values()) == pytest.approx(1)
        assert 0 < each.latencies[0] <= each.latencies[1] <= each.latencies[2]
