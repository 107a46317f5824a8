"""Callers who wait for the same table share one look at it, and take turns."""

import asyncio

import pytest

from app.api.gate.admission import Bulkhead
from app.api.runtime import TableLooks
from app.errors import DeadlineExceededError, StorageError
from app.planning.request.requests import SnapshotSelector, TableRef

pytestmark = pytest.mark.anyio
TABLE = (TableRef("main", "db", "t"), SnapshotSelector())
OTHER = (TableRef("main", "db", "u"), SnapshotSelector())


class Identities:
    """Looks that are counted; the identity is their number."""

    def __init__(self) -> None:
        self.looks = 0

    async def __call__(self) -> str:
        self.looks += 1
        return str(self.looks)


async def test_all_who_wait_for_a_table_share_a_look() -> None:
    look = Identities()

    looks = TableLooks(seconds=0)
    first = await asyncio.gather(*(looks.identity(TABLE, look) for _ in range(50)))
    answer = [*first, await looks.identity(TABLE, look), await looks.identity(OTHER, look)]

    assert answer == [*["1"] * 50, "2", "3"]


async def test_who_goes_away_takes_the_look_from_nobody() -> None:
    look = Identities()

    looks = TableLooks(seconds=0)
    gone, stays = (asyncio.create_task(looks.identity(TABLE, look)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    answer = await stays

    assert answer == "1"


async def test_a_look_that_fails_fails_for_all_who_wait_and_for_nobody_after_them() -> None:
    async def fail() -> str:
        raise StorageError("the store is silent")

    looks = TableLooks(seconds=0)
    failed = await asyncio.gather(*(looks.identity(TABLE, fail) for _ in range(2)), return_exceptions=True)
    first, second, after = [*failed, await looks.identity(TABLE, Identities())]
    assert isinstance(first, StorageError)
    assert isinstance(second, StorageError)
    assert after == "1"


async def test_few_have_their_turn_at_a_time() -> None:
    looks, bulkhead = TableLooks(seconds=0), Bulkhead("test", 1, 1)
    inside = most = 0

    async def take() -> None:
        nonlocal inside, most
        async with looks.turn(bulkhead, 30):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(take() for _ in range(20)))
    bulkhead.close()
    answer = most

    assert answer == 4


async def test_a_turn_that_does_not_come_is_an_error() -> None:
    looks, bulkhead = TableLooks(seconds=0), Bulkhead("test", 1, 1)
    async with (
        looks.turn(bulkhead, 30),
        looks.turn(bulkhead, 30),
        looks.turn(bulkhead, 30),
        looks.turn(bulkhead, 30),
    ):
        with pytest.raises(DeadlineExceededError, match="ask again"):
            async with looks.turn(bulkhead, 0):
                pass
    bulkhead.close()
