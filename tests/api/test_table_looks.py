"""Callers who wait for the same table share one look at it, and take turns."""

from __future__ import annotations

import asyncio

import pytest

from app.api.admission import Bulkhead
from app.api.runtime import TableLooks
from app.errors import DeadlineExceededError, StorageError
from app.planning.request.requests import SnapshotSelector, TableRef

TABLE = (TableRef("main", "db", "t"), SnapshotSelector())
OTHER = (TableRef("main", "db", "u"), SnapshotSelector())


class Identities:
    """Looks that are counted; the identity is their number."""

    def __init__(self) -> None:
        self.looks = 0

    async def __call__(self) -> str:
        self.looks += 1
        return str(self.looks)


def test_all_who_wait_for_a_table_share_a_look() -> None:
    look = Identities()

    async def main() -> list[str]:
        looks = TableLooks(seconds=0)
        first = await asyncio.gather(*(looks.identity(TABLE, look) for _ in range(50)))
        return [*first, await looks.identity(TABLE, look), await looks.identity(OTHER, look)]

    assert asyncio.run(main()) == [*["1"] * 50, "2", "3"]


def test_who_goes_away_takes_the_look_from_nobody() -> None:
    look = Identities()

    async def main() -> str:
        looks = TableLooks(seconds=0)
        gone, stays = (asyncio.create_task(looks.identity(TABLE, look)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays

    assert asyncio.run(main()) == "1"


def test_a_look_that_fails_fails_for_all_who_wait_and_for_nobody_after_them() -> None:
    async def fail() -> str:
        raise StorageError("the store is silent")

    async def main() -> list[str | BaseException]:
        looks = TableLooks(seconds=0)
        failed = await asyncio.gather(
            *(looks.identity(TABLE, fail) for _ in range(2)), return_exceptions=True
        )
        return [*failed, await looks.identity(TABLE, Identities())]

    first, second, after = asyncio.run(main())
    assert isinstance(first, StorageError)
    assert isinstance(second, StorageError)
    assert after == "1"


def test_few_have_their_turn_at_a_time() -> None:
    async def main() -> int:
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
        return most

    assert asyncio.run(main()) == 4


def test_a_turn_that_does_not_come_is_an_error() -> None:
    async def main() -> None:
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

    asyncio.run(main())
