"""Queries through the engine's catalog ``paimon-index`` and without it, in one JVM."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MODULE: Final = Path(__file__).resolve().parents[2] / "jvm"


@dataclass(frozen=True, slots=True)
class Query:
    """One question to both catalogs.

    Attributes:
        table: its name in database ``golden``.
        predicate: as the engine serializes it.
        options: of the session, such as ``scan.snapshot-id``.
    """

    table: str
    predicate: object
    options: Mapping[str, object]


@functools.cache
def built_jar() -> Path:
    """The catalog's jar."""
    _classpath()
    (jar,) = (_MODULE / "target").glob("paimon-index-catalog-*.jar")
    return jar


@functools.cache
def _classpath() -> str:
    goals = ("package", "-DskipTests", "dependency:build-classpath", "-Dmdep.includeScope=test")
    written = _MODULE / "target" / "classpath.txt"
    subprocess.run(  # noqa: S603 - fixed words
        ["mvn", "-q", "-B", "-f", str(_MODULE / "pom.xml"), *goals, f"-Dmdep.outputFile={written}"],  # noqa: S607
        check=True,
        capture_output=True,
    )
    own = (_MODULE / "target" / "classes", _MODULE / "target" / "test-classes")
    return ":".join([*map(str, own), written.read_text().strip()])


def compare(
    warehouse: Path, uri: str, queries: Sequence[Query], options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """For each query: ``rows``, ``rows_equal``, ``files``, ``engine_files`` and ``outcome``, or ``error``."""
    asked = "".join(
        json.dumps({"table": f"golden.{each.table}", "predicate": each.predicate, "options": each.options})
        + "\n"
        for each in queries
    )
    program = ["java", "-Duser.timezone=UTC", "-cp", _classpath(), "org.paimonindex.Compare"]
    settings = [f"{name}={value}" for name, value in (options or {}).items()]
    finished = subprocess.run(  # noqa: S603 - fixed words
        [*program, str(warehouse), uri, *settings], input=asked, check=True, capture_output=True, text=True
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]
