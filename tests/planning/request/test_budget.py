"""How long a plan may read index files."""

from __future__ import annotations

import time

from app.planning.request.budget import Budget
from app.storage import time_limit


def test_a_budget_ends_before_the_deadline_of_its_request() -> None:
    with time_limit(30):
        begun = time.monotonic()
        long, short = Budget.begin(60_000), Budget.begin(1_000)
    ended = time.monotonic()

    assert long.ends is not None
    assert short.ends is not None
    assert long.ends <= ended + 30 * 2 / 3
    assert begun + 1 <= short.ends <= ended + 1


def test_without_a_deadline_a_budget_is_what_it_says() -> None:
    begun = time.monotonic()

    assert (Budget.begin(60_000).ends or 0) >= begun + 60
    assert Budget.begin(None).ends is None
