from __future__ import annotations

import hashlib
import traceback

import pytest

from app.access import Caller, Role, TokenBook, new_secret, stored_digest
from app.errors import SettingsError
from tests.tokens import document, entry

YAML = b"""
tokens:
  # who plans
  - name: spark
    sha256: "%s"
    role: reader
    warehouses: [main, cold]
    databases: [sales]
    expires: 2027-06-30T00:00:00Z
  - {name: ops, sha256: "%s", role: admin, warehouses: ["*"]}
""" % (stored_digest("one").encode(), stored_digest("two").encode())


def test_a_file_says_what_each_token_allows() -> None:
    book = TokenBook.read(YAML)

    spark, ops = book.find(b"one"), book.find(b"two")

    assert len(book) == 2
    assert spark == Caller(
        "spark", Role.READER, frozenset({"main", "cold"}), frozenset({"sales"}), 1_814_313_600.0
    )
    assert ops == Caller("ops", Role.ADMIN)


@pytest.mark.parametrize("secret", [b"", b"three", b"one ", b"ONE", stored_digest("one").encode()])
def test_nothing_but_the_secret_finds_a_token(secret: bytes) -> None:
    assert TokenBook.read(YAML).find(secret) is None


def test_two_digests_that_begin_alike_are_told_apart() -> None:
    digest = hashlib.sha256(b"one").digest()
    alike = digest[:-1] + bytes([digest[-1] ^ 1])
    other, right = Caller("other", Role.ADMIN), Caller("right", Role.READER)

    assert TokenBook({alike: other}).find(b"one") is None
    assert TokenBook({alike: other, digest: right}).find(b"one") is right


@pytest.mark.parametrize(
    ("warehouses", "databases", "warehouse", "database", "may"),
    [
        (None, None, "main", "sales", True),
        ({"main"}, None, "main", None, True),
        ({"main"}, None, "main", "sales", True),
        ({"main"}, None, "cold", None, False),
        ({"main"}, {"sales"}, "main", None, True),
        ({"main"}, {"sales"}, "main", "sales", True),
        ({"main"}, {"sales"}, "main", "hr", False),
        ({"main"}, {"sales"}, "cold", "sales", False),
        (None, {"sales"}, "cold", "hr", False),
    ],
)
def test_what_a_caller_may_use(
    warehouses: set[str] | None,
    databases: set[str] | None,
    warehouse: str,
    database: str | None,
    may: bool,  # noqa: FBT001 - an expected value
) -> None:
    caller = Caller(
        "x",
        Role.READER,
        None if warehouses is None else frozenset(warehouses),
        None if databases is None else frozenset(databases),
    )

    assert caller.may_use(warehouse, database) is may


def test_secrets_are_long_and_never_alike() -> None:
    secrets = {new_secret() for _ in range(100)}

    assert len(secrets) == 100
    assert all(secret.startswith("pix_") and len(secret) == 47 for secret in secrets)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "one member, tokens"),
        (b"[]", "one member, tokens"),
        (b"tokens: 7", "one member, tokens"),
        (b'{"tokens": [], "token": []}', "one member, tokens"),
        (b"tokens:\n- [", "neither YAML nor JSON at line 2"),
        (b"\xff\xfe\x00", "neither YAML nor JSON"),
        (b"[" * 100_000, "neither YAML nor JSON"),
        (b"tokens: [7]", "token 0 is no object"),
        (document(entry("a", "1"), entry("b", "1")), "'b' and 'a' have one secret"),
        (document(entry("a", "1"), entry("a", "2")), "two tokens of the name 'a'"),
        (document(entry("", "1")), "token 0: name: expected up to 128"),
        (document(entry("a b", "1")), "token 0: name: expected up to 128"),
        (document(entry("a", "1", role="root")), "token 0: role: Input should be 'reader' or 'admin'"),
        (document(entry("a", "1", warehouses=[])), "token 0: warehouses: "),
        (document(entry("a", "1", warehouses="main")), "token 0: warehouses: "),
        (document(entry("a", "1", databases=[])), "token 0: databases: "),
        (document(entry("a", "1", expires="soon")), "token 0: expires: "),
        (document(entry("a", "1", sha256="12")), "token 0: sha256: expected 64 hexadecimal digits"),
        (document(entry("a", "1"), {"name": "b"}), "token 1: sha256: Field required"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(content: bytes, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        TokenBook.read(content)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"tokens: [{pix_SECRET: 1}]",
        b"tokens: {pix_SECRET: 1}",
        b"pix_SECRET: [1]",
        b"tokens:\n- pix_SECRET: [",
        b"tokens: [pix_SECRET]",
        document(entry("a", "1", sha256="pix_SECRET")),
        document(entry("a", "1", pix_SECRET="pix_SECRET")),  # noqa: S106 - that is the point
        document(entry("a", "1", role="pix_SECRET")),
        document(entry("a", "1", expires="pix_SECRET")),
    ],
)
def test_a_secret_that_was_put_into_the_file_is_not_told(content: bytes) -> None:
    with pytest.raises(SettingsError) as caught:
        TokenBook.read(content)

    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_a_file_without_tokens_lets_nobody_in() -> None:
    assert len(TokenBook.read(b"tokens: []")) == 0


def test_warehouses_that_nobody_configured_are_named() -> None:
    assert TokenBook.read(YAML).unknown_warehouses(["main"]) == ["cold"]
