"""Every option of the engine is known: ``core_options.txt`` says of each what it means to a plan.

The list has the options of releases 0.4 to 1.4 and of the connector's 2.1, with the names they had before.
Where the engine gets a new one, somebody has to find out whether batch reads see other files or rows under
it, and to write it down there, and in ``docs/tables.md`` if they do.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.errors import UnsupportedFormatError
from app.options.table_options import REFUSED, check_options
from app.planning.service import IndexService
from app.types import DataField, parse_type
from tests.planning.copied_tables import open_service
from tests.planning.made_tables import MadeTable
from tests.table.entries import entry

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_CONNECTOR: Final = _ROOT.parent / "shared" / "engine" / "spark" / "paimon-spark-4.0_2.13.jar"
_KNOWN: Final = dict(line.split() for line in (_HERE / "core_options.txt").read_text().splitlines())
_HARMLESS_VALUES: Final = {"branch": "main", "type": "TABLE", "batch-scan-mode": "none"}
_ID: Final = DataField(0, "id", parse_type("BIGINT"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


@pytest.mark.shared
def test_every_option_of_the_engine_is_known() -> None:
    listed = subprocess.run(  # noqa: S603 - fixed words
        ["java", "-cp", str(_CONNECTOR), str(_HERE / "ListOptions.java")],  # noqa: S607 - whichever runs Spark
        check=True,
        capture_output=True,
        text=True,
    )

    keys = listed.stdout.split()
    assert "deletion-vectors.merge-on-read" in keys
    assert [key for key in keys if key not in _KNOWN] == []


def test_what_is_listed_as_refused_is_refused() -> None:
    assert {name for name, meaning in _KNOWN.items() if meaning == "refused"} == REFUSED.keys()
    assert set(_KNOWN.values()) == {"honoured", "refused", "harmless"}


def test_the_page_of_tables_has_every_option_that_changes_what_is_read() -> None:
    page = (_ROOT / "docs" / "tables.md").read_text()
    named = set(re.findall(r"`([a-z0-9_.-]+)(?:=[^`]*)?`", page))

    assert [name for name, meaning in _KNOWN.items() if meaning != "harmless" and name not in named] == []


def test_a_session_of_spark_is_refused_for_the_same_options() -> None:
    # The client knows nothing of the service's modules, and its own module needs pyspark.
    written = (_ROOT / "client" / "paimon_index" / "spark" / "refusals.py").read_text()
    of_session = {name for name in _KNOWN if f'        "{name}",\n' in written}

    assert of_session - REFUSED.keys() == {
        "deletion-vectors.enabled",
        "deletion-vectors.merge-on-read",
        "ignore-delete",
    }
    assert REFUSED.keys() <= of_session


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_table_with_such_an_option_is_not_planned(tmp_path: Path, service: IndexService, name: str) -> None:
    table = MadeTable.make(tmp_path, [_ID], options={name: "7"})
    table.commit([entry()])

    with pytest.raises(UnsupportedFormatError, match=rf"table made has the option {name}=7, .* the engine"):
        table.plan(service)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_engine_has_by_default_is_planned(name: str) -> None:
    default = (
        "latest-full" if name in ("scan.mode", "log.scan") else "none" if name == "stream-scan-mode" else ""
    )
    check_options({name: _HARMLESS_VALUES.get(name, default)}, "t")
    check_options({"deletion-vectors.merge-on-read": "true", "pk-clustering-override": "false"}, "t")


def test_files_that_are_not_sorted_by_key_are_not_merged() -> None:
    options = {"deletion-vectors.merge-on-read": "true", "pk-clustering-override": "true"}
    with pytest.raises(
        UnsupportedFormatError, match=r"pk-clustering-override and deletion-vectors\.merge-on-read"
    ):
        check_options(options, "t")
