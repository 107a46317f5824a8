import hashlib
import logging
import os
import traceback
from pathlib import Path

import pytest

from app.access import Caller, Role, TokenBook, TokenFile, is_loopback, new_secret, stored_digest
from app.errors import SettingsError
from tests.tokens import document, entry, write

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
    warehouses: set[str] | None, databases: set[str] | None, warehouse: str, database: str | None, may: bool
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
        (b"tokens: [7]", "token 0 is not an object"),
        (document(entry("a", "1"), entry("b", "1")), "'b' and 'a' share a secret"),
        (document(entry("a", "1"), entry("a", "2")), "two tokens are named 'a'"),
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


OLD, NEW = entry("old", "1"), entry("new", "2")


def names(file: TokenFile) -> list[str | None]:
    """Who gets in with the secrets 1 and 2."""
    callers = [file.find(secret) for secret in (b"1", b"2")]
    return [None if caller is None else caller.name for caller in callers]


def look(file: TokenFile) -> None:
    """Look at a file until it was still for long enough."""
    for _ in range(3):
        file.refresh()


def test_a_file_that_is_half_written_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "tokens", OLD)
    whole = write(tmp_path / "whole", NEW, OLD).read_bytes()
    file = TokenFile(str(path), ["main"])
    # The halves in between are a list of fewer tokens, or none at all.
    for size in range(0, len(whole), 8):
        path.write_bytes(whole[:size])
        file.refresh()
        file.refresh()
        assert names(file) == ["old", None]

    path.write_bytes(whole)
    look(file)

    assert names(file) == ["old", "new"]
    assert not caplog.records


@pytest.mark.parametrize("how", ["written again", "moved there", "mended"])
def test_another_file_is_taken_over(tmp_path: Path, how: str) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])
    before = names(file)

    if how == "mended":
        path.write_bytes(b"tokens: [")
        look(file)
    if how == "moved there":
        write(tmp_path / "next", NEW).replace(path)
    else:
        write(path, NEW)
    look(file)

    assert (before, names(file)) == (["old", None], [None, "new"])


def test_a_pipe_in_the_place_of_the_file_holds_nobody(tmp_path: Path) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])
    path.unlink()
    os.mkfifo(path)

    look(file)
    with pytest.raises(SettingsError, match="cannot be read: expected a regular file"):
        TokenFile(str(path))
    path.unlink()
    write(path, NEW)
    look(file)

    assert names(file) == [None, "new"]


def test_a_secret_volume_of_kubernetes_is_followed(tmp_path: Path) -> None:
    for version, token in (("..1", OLD), ("..2", NEW)):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "tokens.yaml", token)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "tokens.yaml"
    path.symlink_to("..data/tokens.yaml")
    file = TokenFile(str(path), ["main"])
    before = names(file)

    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    look(file)

    assert (before, names(file)) == (["old", None], [None, "new"])


@pytest.mark.parametrize(
    "content", [b"", b"tokens: [", document({"name": "x"}), b" " * ((1 << 20) + 1), None]
)
def test_a_broken_file_changes_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])

    path.unlink() if content is None else path.write_bytes(content)
    for _ in range(3):
        look(file)

    assert names(file) == ["old", None]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "the tokens read before stay in force" in record.message


def test_the_file_is_followed_while_the_service_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.access.tokens._SECONDS", 0.01)
    path = write(tmp_path / "tokens", OLD)
    file = TokenFile(str(path), ["main"])
    file.start()
    try:
        write(path, NEW)
        while names(file) != [None, "new"]:
            pass
    finally:
        file.stop()

    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "tokens cannot be read: No such file"), (b"tokens: 7", "tokens: expected an object")],
)
def test_without_a_sound_file_nothing_starts(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError, match=message):
        TokenFile(str(path))


def test_a_warehouse_that_nobody_configured_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "tokens", entry("a", "1", warehouses=["main", "typo"]))

    TokenFile(str(path), ["main"])

    assert "not configured: typo" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_addresses_of_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "nowhere.invalid", "0"],  # noqa: S104
)
def test_addresses_that_others_may_reach(host: str) -> None:
    assert not is_loopback(host)
