from decimal import Decimal
from typing import Any

import pytest

from app.errors import RequestError
from app.planning.request.requests import PlanRequest, SortKey, TopN
from app.types.digest import digest, request_digest

# What strict JSON makes of numbers that a double cannot hold.
ONE_DIGIT: Any = Decimal("1.1")
TWO_DIGITS: Any = Decimal("1.10")


def test_parts_do_not_run_together() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc") != digest(b"abc")


def test_equal_requests_have_one_digest_whatever_the_order_of_members() -> None:
    one = PlanRequest(filter={"field": "x", "literals": [1, None]}, files=("a", "b"))
    other = PlanRequest(filter={"literals": [1, None], "field": "x"}, files=("a", "b"))
    assert request_digest("plan", one) == request_digest("plan", other)


@pytest.mark.parametrize(
    "other",
    [
        PlanRequest(filter={"x": "1.10"}),
        PlanRequest(filter={"x": 1.1}),
        PlanRequest(filter={"x": ONE_DIGIT}),
        PlanRequest(filter={"x": TWO_DIGITS}, top_n=TopN(order_by=(SortKey(column="x"),), limit=1)),
        PlanRequest(tag="1", filter={"x": TWO_DIGITS}),
    ],
)
def test_requests_that_differ_have_digests_that_differ(other: PlanRequest) -> None:
    assert request_digest(PlanRequest(filter={"x": TWO_DIGITS})) != request_digest(other)


def test_all_of_what_is_long_counts() -> None:
    text, numbers = "x" * 100_000, list(range(100_000))
    requests = [
        PlanRequest(filter=text),
        PlanRequest(filter=f"{text}x"),
        PlanRequest(filter=f"{text[:-1]}y"),
        PlanRequest(in_lists={"id": numbers}),
        PlanRequest(in_lists={"id": [*numbers, 0]}),
        PlanRequest(in_lists={"id": [*numbers[:-1], 0]}),
        PlanRequest(in_lists={"id": numbers[:50_000], "no": numbers[50_000:]}),
        PlanRequest(files=(text,)),
    ]

    assert len(set(map(request_digest, requests))) == len(requests)
    assert request_digest(PlanRequest(files=("a",) * 20_000)) == request_digest(
        PlanRequest(files=("a",) * 20_000)
    )


def test_what_has_no_form_of_its_own_is_refused() -> None:
    with pytest.raises(RequestError, match="a object cannot be part of a request"):
        request_digest(object())
