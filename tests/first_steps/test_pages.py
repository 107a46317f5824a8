"""Blocks of pages: what is pasted, what is shown, and which of them a page has to answer for."""

import pytest

from tests.first_steps.pages import Block, blocks_in


def of(content: str) -> list[tuple[str, str, str]]:
    return [(block.language, block.text, block.output) for block in blocks_in("page.md", content)]


def test_text_after_a_block_is_its_output() -> None:
    assert of("```sh\nmake demo\n```\nprints\n```text\nanswers\n```\n") == [
        ("sh", "make demo\n", "answers\n")
    ]


def test_comments_with_an_arrow_are_output() -> None:
    content = "```python\nprint(3)\n# > 3\n```\n```sql\nSELECT 4;\n-- > 4\n```\n"

    assert [output for _, _, output in of(content)] == ["3", "4"]


def test_each_command_of_a_transcript_is_pasted_alone() -> None:
    content = "```console\n$ one \\\n  two\nfirst\nsecond\n$ three\n```\n"

    assert of(content) == [("console", "one \\\n  two\n", "first\nsecond\n"), ("console", "three\n", "")]


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```sh\nmake\n```\n", None),
        ("<!-- not run: it needs a cluster -->\n```scala\nval x = 1\n```\n", None),
        ("<!-- keeps running -->\n```sh\nserve\n```\n", None),
        ("```\nmake\n```\n", "it is neither run nor marked"),
        ("```scala\nval x = 1\n```\n", "it is neither run nor marked"),
        ("<!-- not run -->\n```sh\nmake\n```\n", "is no mark"),
    ],
)
def test_a_block_is_run_or_marked_with_a_reason(block: str, fault: str | None) -> None:
    (only,) = blocks_in("page.md", block)

    assert (only.fault() or "") == "" if fault is None else fault in (only.fault() or "")


def test_a_fault_is_found_by_its_line() -> None:
    (only,) = blocks_in("page.md", "# Title\n\n<!-- keeps running -->\n```sh\nserve\n```\n")

    assert only.place == "page.md:4"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("3 files", "before\n3 files\nafter\n"),
        ("a  b", "a b"),
        ('{"a":1,…,"c":3}', '{"a":1,"b":2,"c":3}'),
        ("first\n…\nlast", "first\nbetween\nlast"),
        ("┃ kept ┃ 3 ┃", "\x1b[1m┃ kept │ 3 ┃\x1b[0m"),
    ],
)
def test_output_that_holds(shown: str, printed: str) -> None:
    assert Block("page.md:1", "sh", "make", shown).difference(printed) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("3 files", "13 files"), ("3 files", "3 files or more"), ("first\nlast", "last\nfirst"), ("8", "")],
)
def test_output_that_does_not_hold(shown: str, printed: str) -> None:
    assert "the page shows" in (Block("page.md:1", "sh", "make", shown).difference(printed) or "")
