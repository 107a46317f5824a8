"""``paimon-index token new`` and the service understand each other."""

import json
import time

import pytest
from typer.testing import CliRunner

from app.access import Caller, Role, TokenBook
from app.cli import program
from app.errors import SettingsError


def new(*arguments: str) -> str:
    done = CliRunner().invoke(program, ["token", "new", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_the_printed_line_belongs_to_the_printed_secret() -> None:
    printed = new("spark", "--warehouse", "main", "--warehouse", "cold", "--database", "sales").splitlines()
    (secret,) = [line.strip() for line in printed if line.strip().startswith("pix_")]
    lines = [line for line in printed if line.startswith("- ")]

    # Below 'tokens:', as YAML takes it.
    book = TokenBook.read("\n".join(["tokens:", *lines]).encode())

    assert book.find(secret.encode()) == Caller(
        "spark", Role.READER, frozenset({"main", "cold"}), frozenset({"sales"})
    )
    assert secret not in lines[0]


def test_the_same_as_json() -> None:
    arguments = ("ops", "--warehouse", "*", "--role", "admin", "--expires-in", "90d", "--json")
    printed = json.loads(new(*arguments))

    caller = TokenBook.read(json.dumps({"tokens": [printed["entry"]]}).encode()).find(
        printed["secret"].encode()
    )

    assert caller is not None
    assert (caller.name, caller.role, caller.warehouses, caller.databases) == ("ops", Role.ADMIN, None, None)
    assert caller.expires == pytest.approx(time.time() + 90 * 86_400, abs=60)


def test_two_secrets_are_never_alike() -> None:
    assert new("a", "--warehouse", "main") != new("a", "--warehouse", "main")


def test_a_name_that_the_file_cannot_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="name: expected up to 128"):
        new("a b", "--warehouse", "main")


@pytest.mark.parametrize(
    "arguments", [("a",), ("--warehouse", "main"), ("a", "--warehouse", "b", "--role", "c")]
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        new(*arguments)

    assert caught.value.code == 2
