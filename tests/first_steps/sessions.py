"""What blocks are pasted into: a shell and a Python for each page, and commands that keep running."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

_PYTHON_PROGRAM: Final = Path(__file__).with_name("python_process.py")
_END: Final = "-- the block has ended with status"
_PATIENCE_SECONDS: Final = 240


class Pasted(NamedTuple):
    """What a block printed, and what ended it, if something did."""

    printed: str
    error: str | None = None


class Shell:
    """A shell of one page: what a block exports is there for the next one."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"],  # noqa: S607 - as a reader's terminal finds it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
            env=dict(environment),
        )
        self._write("set -E; trap 'failed=$?' ERR")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _ended(self._process)

    def paste(self, text: str) -> Pasted:
        """Run commands; any of them that fails is an error, and the others run all the same."""
        self._write(f"failed=0\n{{\n{text}\n}} </dev/null\nprintf '\\n%s %s\\n' '{_END}' \"$failed\"")
        lines: list[str] = []
        for line in _pipe(self._process.stdout):
            if line.startswith(_END):
                status = line.removeprefix(_END).strip()
                printed = "".join(lines)
                return Pasted(printed, None if status == "0" else f"status {status}:\n{printed}")
            lines.append(line)
        return Pasted("".join(lines), "the shell ended")

    def _write(self, text: str) -> None:
        stream = _pipe(self._process.stdin)
        stream.write(f"{text}\n")
        stream.flush()


class Python:
    """A Python of one page: names and Spark's session are there for the next block."""

    def __init__(self, python: Path, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - ours
                [str(python), str(_PYTHON_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=directory,
                env=dict(environment),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _ended(self._process)

    def paste(self, language: str, text: str, settings: Mapping[str, str]) -> Pasted:
        """Run a block; ``settings`` are those of a block of properties."""
        stream = _pipe(self._process.stdin)
        stream.write(json.dumps({"language": language, "text": text, "settings": dict(settings)}) + "\n")
        stream.flush()
        line = _pipe(self._process.stdout).readline()
        return Pasted(**json.loads(line)) if line else Pasted("", "Python ended")


class Kept:
    """A command that serves until Ctrl-C."""

    def __init__(self, text: str, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - of our own page
                ["bash", "-c", text],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                env=dict(environment),
                start_new_session=True,
            )

    def printed(self) -> Pasted:
        """Return what it has printed when it says how to end it, which it does last."""
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while not re.search("ctrl.c", printed := self._log.read_text(), re.IGNORECASE):
            if self._process.poll() is not None or time.monotonic() > give_up:
                return Pasted(printed, f"it does not serve:\n{printed}")
            time.sleep(0.1)
        return Pasted(printed)

    def end(self) -> None:
        """End it with all that it has started; a run in the background would not let Ctrl-C through."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait()


def _ended(process: subprocess.Popen[str]) -> None:
    _pipe(process.stdin).close()
    process.wait()
    _pipe(process.stdout).close()


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
