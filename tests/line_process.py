"""Programs that answer each line of their input with a line of JSON."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self


class LineProcess:
    """A running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._process, self._asked, self._answers = process, process.stdin, process.stdout

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        log: IO[Any] | int | None = subprocess.DEVNULL,
    ) -> Self:
        return cls(
            subprocess.Popen(  # noqa: S603 - our own programs
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                env=environment,
            )
        )

    def ask(self, question: str) -> dict[str, Any]:
        self._asked.write(question + "\n")
        self._asked.flush()
        line = self._answers.readline()
        assert line, f"the program ended with code {self._process.wait()} at {question}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End its input, and wait for it."""
        self._asked.close()
        self._process.wait()
        self._answers.close()
