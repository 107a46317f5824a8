"""The Java engine's programs, built in a copy of their directory beside the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.types import DataType

_PROGRAMS = Path(__file__).resolve().parents[3] / "shared" / "engine" / "tables"


@dataclass(frozen=True, slots=True)
class JavaEngine:
    """The programs over the engine, see their README."""

    directory: Path

    @classmethod
    def build(cls, directory: Path) -> JavaEngine:
        shutil.copytree(_PROGRAMS, directory)
        for folder in (directory, *directory.rglob("*/")):
            folder.chmod(0o755)
        _output_of("mvn", "-q", "-B", "-f", str(directory / "pom.xml"), "package")
        return cls(directory)

    def read_back(self, table: Path, *, max_rows: int = 0, predicate: object = None) -> dict[str, Any]:
        """Return what the engine sees in the latest snapshot of a table, with some of its rows."""
        program = str(self.directory / "run.sh")
        asked = ["--table", str(table), "--max-rows", str(max_rows)]
        if predicate is not None:
            asked += ["--filter", json.dumps(predicate)]
        answer: dict[str, Any] = json.loads(_output_of(program, "ReadBack", *asked))
        return answer

    def evaluate_index(
        self, index: Path, columns: Mapping[str, DataType], predicates: Sequence[object]
    ) -> list[dict[str, Any]]:
        asked = index.with_suffix(".json")
        asked.write_text(json.dumps(predicates))
        listed = json.dumps([{"name": name, "type": str(data_type)} for name, data_type in columns.items()])
        program = str(self.directory / "run.sh")
        answers = _output_of(
            program, "EvaluateIndex", "--index", str(index), "--columns", listed, "--predicates", str(asked)
        )
        return [json.loads(answer) for answer in answers.splitlines()]


def _output_of(*command: str) -> str:
    finished = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - fixed words
    assert finished.returncode == 0, finished.stderr
    return finished.stdout
