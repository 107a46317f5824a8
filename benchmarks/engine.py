"""The Java engine's own benchmarks, over files and tables of this one where they take any.

Its programs are two Maven projects in one directory: ``tables``, whose ``PlanBench`` plans a table, and
``index-bench``, which writes index files and evaluates them. Each has a ``run.sh`` that builds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.events import Layout
from benchmarks.index_files import CONDITIONS, DECODED_FILES, DISTINCT_FILES, ROWS, index_directory
from benchmarks.services import KEYS, prepare, warehouse_of
from benchmarks.workload import Figure, Suite, Unit

VARIABLE: Final = "PAIMON_ENGINE_DIR"
_PROGRAMS: Final = ("tables", "index-bench")
_FROM_BYTES: Final = "bytes"
_ROUNDS: Final = "3"
_PLAN_SECONDS: Final = "1"
_PLAN_HEAP: Final = "8g"
_ABSENT_ID: Final = "id = absent (bloom)"


def missing(engine: Path | None) -> str | None:
    """Why the engine cannot run; None where it can."""
    if engine is None:
        return f"no directory of its programs was given (--engine DIR or {VARIABLE})"
    absent = [program for program in _PROGRAMS if not (engine / program / "run.sh").is_file()]
    if absent:
        return f"{engine} has no {' and no '.join(absent)}"
    tools = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(tools)} cannot be found" if tools else None


def index_suite(engine: Path) -> Suite:
    """Evaluate index files; leave them for :mod:`benchmarks.index_files`."""
    return Suite("engine, cold indexes", _index_figures, partial(_prepare_index_files, engine))


def plan_suite(engine: Path, files: int) -> Suite:
    """Plan the table of embedded bloom filters."""
    return Suite(
        "engine, plans", partial(_plan_figures, KEYS, files), partial(_prepare_plans, engine, KEYS, files)
    )


def index_name(kind: str, predicate: str) -> str:
    """Return what results call its evaluation of one kind of index from its bytes."""
    return f"engine, from bytes, {kind} {predicate}"


def plan_name(*, is_cached: bool) -> str:
    """Return what results call its plans; cached are those with manifests in memory, decompressed."""
    return f"engine, {KEYS.title}{', manifests cached' if is_cached else ''}: id ="


def _prepare_index_files(engine: Path, directory: Path) -> None:
    program = _copied(engine, "index-bench", directory)
    sizes = {"--files": DECODED_FILES, "--distinct": DISTINCT_FILES, "--rows": ROWS}
    flags = [text for flag, size in sizes.items() for text in (flag, str(size))]
    _run(program, "--dir", str(index_directory(directory)), "--gen", *flags)


def _index_figures(directory: Path) -> Iterator[Figure]:
    program = directory / "engine" / "index-bench"
    printed = _run(program, "--dir", str(index_directory(directory)), "--rounds", _ROUNDS)
    for line in printed.splitlines():
        found = json.loads(line)
        if found["mode"] == _FROM_BYTES and (found["kind"], found["predicate"]) in CONDITIONS:
            yield Figure(
                index_name(found["kind"], found["predicate"]),
                found["files"],
                Unit.NANOSECONDS_EACH,
                found["ns_per_file"],
                runs=int(_ROUNDS),
            )


def _prepare_plans(engine: Path, layout: Layout, files: int, directory: Path) -> None:
    prepare(layout, files, directory)
    _copied(engine, "tables", directory)


def _plan_figures(layout: Layout, files: int, directory: Path) -> Iterator[Figure]:
    # It plans the table in DIR/warehouse if there is one.
    place = directory / "engine" / f"plans-{files}"
    place.mkdir()
    (place / "warehouse").symlink_to(warehouse_of(directory, layout, files))
    flags = ["--files", str(files), "--seconds", _PLAN_SECONDS, "--out", str(place)]
    printed = _run(directory / "engine" / "tables", "PlanBench", *flags, environment={"HEAP": _PLAN_HEAP})
    # Maven may have printed before.
    found: dict[str, Any] = json.loads(printed[printed.index("{") :])
    for run in found["runs"]:
        if run["filter"] == _ABSENT_ID:
            yield Figure(
                plan_name(is_cached=run["manifest_cache"]),
                files,
                Unit.MILLISECONDS,
                run["ns_median"] / 1e6,
                runs=run["plans_timed"],
                kept=run["files_kept"],
            )


def _copied(engine: Path, program: str, directory: Path) -> Path:
    """Return the project in a place where it can be built."""
    copy = directory / "engine" / program
    if not copy.exists():
        shutil.copytree(engine / program, copy)
    return copy


def _run(program: Path, *flags: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what a program prints."""
    done = subprocess.run(  # noqa: S603 - the programs that the caller asked for
        ["/bin/sh", str(program / "run.sh"), *flags],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    return done.stdout
