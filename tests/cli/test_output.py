"""What a terminal is given: text that it shows and does not obey, and no secrets."""

from __future__ import annotations

import io
import sys

import pytest

from app.cli.output import print_line, print_table, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("data-1.parquet", "data-1.parquet"),
        ("Größe 日本", "Größe 日本"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("one\nerror: two\r", "one\\nerror: two\\r"),
        ("\x9b31m", "\\x9b31m"),
        ("txt.\u202eexe", "txt.\\u202eexe"),
        ("\ud800", "\\ud800"),
        ("webhdfs://user:pix_SECRET@host:9870/w", "webhdfs://***@host:9870/w"),
        ("s3://lake/user@host", "s3://lake/user@host"),
        ("abfss://container@account.dfs/w", "abfss://container@account.dfs/w"),
    ],
)
def test_what_is_printed_moves_no_cursor_and_names_no_password(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_tables_and_lines_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("line \x1b[31m")
    print_table(("name",), [("cell \x1b[31m",), ({"member": "\x1b"},)])

    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count("x1b[31m") == 2


def test_a_terminal_without_a_character_is_given_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))

    print_line("databases größe, 日本")
    print_table(("name",), [("größe",)])

    assert written.getvalue().decode().split() == [
        "databases", "gr\\xf6\\xdfe,", "\\u65e5\\u672c", "name", "gr\\xf6\\xdfe"
    ]  # fmt: skip
