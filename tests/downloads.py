"""Runs pip or Maven, and names what either fetches and how much, so that minutes of work are seen to move.

The Makefile runs it as a program, ``python tests/downloads.py COMMAND...``, before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

_STEPS: Final = (
    (r"Collecting ([\w.-]+)", "  {0}"),
    (r" +Downloading (\S+(?<!\.metadata)) \((\S+ [MG]B)\)", "    downloads {0} ({1})"),
    (r" +Building wheel for ([\w.-]+) .*: started", "    builds {0}"),
    (r"Installing collected packages", "  … all there: unpacks them"),
    (r"Downloaded from \S+: \S+/(\S+\.jar) \((\S+ \S+)", "  {0} ({1})"),
)
"""What a line of pip's or Maven's looks like, and what is said of it."""
_LINES_OF_A_FAILURE: Final = 60


class Terminal:
    """Where steps are shown: the terminal, also of pytest and its workers, which capture what tests print."""

    uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext
    """What pytest does not capture meanwhile."""

    @classmethod
    def show(cls, line: str) -> None:
        with cls.uncaptured():
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def pytest_configure(config: pytest.Config) -> None:
    """Print on the terminal what tests download."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        Terminal.uncaptured = capture.global_and_fixture_disabled


def step_of(line: str) -> str | None:
    """Return what is shown of a line that pip or Maven prints."""
    return next(
        (form.format(*step.groups()) for text, form in _STEPS if (step := re.match(text, line))), None
    )


def run(command: Sequence[str], show: Callable[[str], None] = Terminal.show) -> int:
    """Run pip or Maven; give its exit status, and show the end of its output if it failed."""
    end: deque[str] = deque(maxlen=_LINES_OF_A_FAILURE)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - ours
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            end.append(line)
            if step := step_of(line):
                show(step)
    if process.returncode:
        show("".join(end).rstrip())
    return process.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
