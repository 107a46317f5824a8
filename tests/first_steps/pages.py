"""The code blocks of a page: what each is for, what it prints, and whether the page says it is not run.

The language after the fence says what a block is for. ``text``, the lines of ``console`` without ``$``, and
comments ``# > `` and ``-- > `` are output, where ``…`` stands for anything. A comment in the line before a
block marks it: ``<!-- not run: REASON -->``, or ``<!-- keeps running -->`` for one that serves until Ctrl-C.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (
    *("README.md", "client/README.md", "docs/iceberg.md", "docs/spark.md", "docs/jobs.md", "docs/sql.md"),
)
LANGUAGES: Final = {"sh", "console", "python", "sql", "properties"}
"""What is run: commands, commands among their output, Python, Spark's SQL, settings of a Spark session."""
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a page that a reader pastes."""

    place: str
    language: str
    text: str
    output: str = ""
    mark: str = ""

    @property
    def not_run(self) -> str | None:
        """Why nobody runs it, if the page says so."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None

    @property
    def keeps_running(self) -> bool:
        return self.mark == "keeps running"

    def fault(self) -> str | None:
        if self.mark and not (self.not_run or self.keeps_running):
            return (
                f"<!-- {self.mark} --> is no mark: write <!-- not run: REASON --> or <!-- keeps running -->"
            )
        if not self.not_run and self.language not in LANGUAGES:
            kinds = ", ".join(sorted(LANGUAGES))
            return f"it is neither run nor marked: name what it is for after the fence ({kinds}), or mark it"
        return None

    def difference(self, printed: str) -> str | None:
        """How what was printed differs from what the page shows."""
        if not self.output or re.search(_pattern(self.output), _plain(printed)):
            return None
        return f"the page shows\n{self.output.strip()}\nbut this was printed:\n{printed.strip()}"


def blocks_of(page: str, clone: Path = ROOT) -> list[Block]:
    """Return the blocks of a page that are pasted, in their order."""
    return list(blocks_in(page, (clone / page).read_text()))


def blocks_in(page: str, content: str) -> Iterator[Block]:
    before: Block | None = None
    for each in _BLOCK.finditer(content):
        place = f"{page}:{content.count(chr(10), 0, each.start('language')) + 1}"
        language, text, mark = each["language"], each["text"], each["mark"] or ""
        if language == "text" and not mark and before is not None and not before.output:
            before = Block(before.place, before.language, before.text, text, before.mark)
            continue
        if before is not None:
            yield before
        before = None
        if language == "console":
            yield from _commands(place, text, mark)
        else:
            shown = re.findall(r"(?:#|--) > (.*)$", text, re.MULTILINE)
            before = Block(place, language, text, "\n".join(shown), mark)
    if before is not None:
        yield before


def _commands(place: str, text: str, mark: str) -> Iterator[Block]:
    """Each command of a transcript, which goes on where a line ends with a backslash, with its output."""
    for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        yield Block(place, "console", command, output, mark)


def _pattern(shown: str) -> str:
    """Whole lines, one after the other, with any white space between words."""
    words = [".*?".join(re.escape(part) for part in word.split("…")) for word in _plain(shown).split()]
    return r"(?ms)^\s*" + r"\s+".join(words) + r"\s*$"


def _plain(text: str) -> str:
    """Less colours and the frames of tables."""
    return re.sub(r"\x1b\[[0-9;]*m|[│┃]", "", text)
