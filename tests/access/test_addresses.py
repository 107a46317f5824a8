from __future__ import annotations

import pytest

from app.access import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_addresses_of_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "nowhere.invalid", "0"],  # noqa: S104
)
def test_addresses_that_others_may_reach(host: str) -> None:
    assert not is_loopback(host)
