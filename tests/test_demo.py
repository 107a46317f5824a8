"""``make demo``: what it prints, and that its answers are those of the tables."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "demo" / "demo.py"


def demonstrated(*arguments: str) -> str:
    command = [sys.executable, str(DEMO), "--once", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own program


def test_each_answer_is_a_sentence() -> None:
    printed = demonstrated()

    for sentence in (
        "3 of 10 files, 8 of 1,113 rows: bsi on fee skipped 7.",
        "17 rows: 2, 3, 14, 25, 36, 47, …",
        "bucket 0, bucket 5, a new key, in no bucket yet",
        "Without it the answer is an error, never fewer rows: warehouse 'copy' cannot be listed",
    ):
        assert sentence in printed
    # Of the damaged copy, while it is there and from memory.
    assert printed.count("  4 of 10 files.") == 2
    assert "The one whose index is damaged is kept, and a warning says so" in printed


@pytest.mark.long
def test_json_shows_requests_and_answers() -> None:
    printed = demonstrated("--json")

    assert "$ curl -s http://127.0.0.1:" in printed
    assert '"selection": [6, 87, 125]' in printed
