"""Whatever a user can set, ask or run is described."""

import json
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import typer.main

from app.api.answers.plan_batches import plan_schema
from app.api.answers.selections import SelectionEncoding
from app.api.http import problems
from app.cli import program
from app.planning.request.requests import SelectionForm
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.types import DataField, parse_type
from tests.first_steps.pages import PAGES, blocks_of
from tests.golden_checks import for_each

DOCS = Path(__file__).parent.parent / "docs"
COMMANDS = sorted(typer.main.get_command(program).commands)  # type: ignore[attr-defined] # a click group


@for_each("name", Settings.model_fields)
def test_every_setting_is_described_with_its_default(name: str) -> None:
    page = (DOCS / "settings.md").read_text()
    default = Settings.model_fields[name].default

    row = next(line for line in page.splitlines() if f"`{ENVIRONMENT_PREFIX}{name.upper()}`" in line)

    assert f"| `{default}` |" in row or (not default and "| none |" in row)


def test_every_column_of_a_plan_is_described_with_its_type() -> None:
    page = (DOCS / "api.md").read_text()
    table = page.partition("| column | type |\n")[2].partition("\n\n")[0]
    described = {
        name: written.split()[0].rstrip(":;")
        for row in table.splitlines()[1:]
        for columns, written in [row.strip("| ").split(" | ", 1)]
        for name in re.findall("`([a-z_]+)`", columns)
        if (name, columns) != ("explain", "`raw_convertible`, `residual`, and `skipped` with `explain`")
        and name != "deletions"
    }
    names = {"int32": "int32", "int64": "int64", "bool": "bool", "string": "string", "binary": "binary"}

    form = SelectionEncoding(SelectionForm.BITMAP, 1, deletions=SelectionForm.BITMAP)
    schema = plan_schema((DataField(0, "dt", parse_type("DATE")),), form, explain=True)

    found = {field.name: names.get(str(field.type), str(field.type).partition("<")[0]) for field in schema}
    assert described == found


def test_every_problem_is_described() -> None:
    page = (DOCS / "api.md").read_text()

    assert {slug for slug in problems.SLUGS if f"`{slug}`" not in page} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_described_with_its_own_options(command: str) -> None:
    page = (DOCS / "command-line.md").read_text()

    assert f"| `paimon-index {command}` |" in page


def test_every_path_that_is_named_exists() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
    path = r"`((?:app|benchmarks|client|demo|docs|examples|helm|tests)/[\w/.-]+)`"
    named = {(page.name, each) for page in pages for each in re.findall(path, page.read_text())}

    assert len(named) > 100
    assert [each for each in named if not (DOCS.parent / each[1]).exists()] == []


def test_every_link_between_pages_leads_to_a_page_and_a_heading() -> None:
    pages = [each for each in DOCS.parent.rglob("*.md") if not {".venv", "build", "golden"} & set(each.parts)]
    anchors = {
        page.resolve(): {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
        }
        for page in pages
    }
    links = {
        (page, target, anchor)
        for page in pages
        for target, anchor in re.findall(r"\]\(([^):#]*)#?([^)]*)\)", page.read_text())
        if not anchor.startswith("//") and ":" not in target + anchor
    }

    assert len(links) > 100
    for page, target, anchor in links:
        found = (page.parent / target).resolve() if target else page.resolve()
        assert found.exists(), (page, target)
        assert not anchor or anchor in anchors[found], (page, target, anchor)


def test_every_page_is_in_the_list_of_pages_and_in_the_navigation_of_the_site() -> None:
    index = (DOCS / "README.md").read_text()
    navigation = json.dumps(tomllib.loads((DOCS / "zensical.toml").read_text())["project"]["nav"])
    entries = set(re.findall(r'"([\w/-]+\.md)"', navigation))

    pages = {page.name for page in DOCS.glob("*.md")}
    assert {page for page in pages if f"({page})" not in index} == {"README.md"}
    assert entries >= {str(page.relative_to(DOCS.parent)) for page in DOCS.rglob("*.md")}
    assert {entry for entry in entries if not (DOCS.parent / entry).exists()} == set()


def test_every_decision_is_in_their_index() -> None:
    directory = DOCS / "decisions"
    index = (directory / "README.md").read_text()

    assert [page.name for page in directory.glob("*.md") if f"({page.name})" not in index] == ["README.md"]


def test_readme_shows_the_two_commands_that_set_everything_up() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.DOTALL)

    assert [block.strip() for block in blocks if block.startswith("make ")] == ["make demo", "make test"]


def test_no_page_has_two_sides_of_a_merge() -> None:
    marks = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
    pages = [each for each in DOCS.parent.rglob("*.md") if not {".venv", "build"} & set(each.parts)]

    assert [str(each) for each in pages if marks.search(each.read_text())] == []


def test_no_text_installs_a_package_that_no_registry_has() -> None:
    """Anybody could register the name. A path (``./client``) and the file of a wheel are no such names."""
    root = DOCS.parent
    pages = [
        root / "Dockerfile",
        root / "Makefile",
        root / "README.md",
        root / "CONTRIBUTING.md",
        root / "compose.yaml",
    ]
    for directory, suffixes in (
        *(("app", ("py",)), ("benchmarks", ("py", "md")), ("client", ("py", "md"))),
        *(("container", ("py", "sh")), ("demo", ("py",)), ("docs", ("md",))),
        *(("examples", ("ipynb", "md", "py", "sh", "sql")), ("helm", ("md", "yaml", "txt"))),
    ):
        pages += [page for suffix in suffixes for page in (root / directory).rglob(f"*.{suffix}")]
    unpublished = re.compile(
        r"pip3? install [^`\n#]*?(?<![\w./*-])paimon[-_]index(?!\w*-[\d*])"
        r"|['\"]paimon[-_]index(?:-client)?\["
    )

    found = {
        f"{page.relative_to(root)}: {line.strip()}"
        for page in pages
        for line in page.read_text().splitlines()
        if unpublished.search(line)
    }

    assert found == set()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    of_users = [
        *project["dependencies"],
        *chain(*(each for name, each in extras.items() if name not in ("checks", "dev"))),
    ]
    table = (DOCS.parent / "CONTRIBUTING.md").read_text().partition("## Dependencies")[2]

    names = {re.split(r"[\[<>=; ]", each)[0] for each in of_users}

    assert {name for name in names if not re.search(rf"\| .*\b{name}\b.* \|", table)} == set()


@pytest.mark.parametrize("project", [".", "client"])
def test_what_is_required_is_in_a_registry(project: str) -> None:
    metadata = tomllib.loads((DOCS.parent / project / "pyproject.toml").read_text())["project"]
    extras = metadata["optional-dependencies"]

    required = {
        re.split(r"[\[<>=; ]", each)[0] for each in [*metadata["dependencies"], *chain(*extras.values())]
    }

    # An extra of the package itself is resolved by the wheel that names it.
    assert {name for name in required if name.startswith("paimon-index")} <= {metadata["name"]}


@pytest.mark.parametrize("page", PAGES)
def test_every_code_block_is_run_by_first_steps_or_says_why_not(page: str) -> None:
    blocks = blocks_of(page)

    assert blocks
    assert {block.place: block.fault() for block in blocks if block.fault()} == {}


@pytest.mark.parametrize("page", ["README.md", "docs/sql.md"])
def test_settings_of_the_engines_catalog_are_whole(page: str) -> None:
    shown = next(block.text for block in blocks_of(page) if block.language == "properties")
    settings = dict(line.split(maxsplit=1) for line in shown.splitlines())
    (catalog,) = [name for name, value in settings.items() if value == "org.apache.paimon.spark.SparkCatalog"]

    assert settings["spark.sql.extensions"].endswith(".PaimonSparkSessionExtensions")
    # Without one the engine makes a database in the warehouse.
    assert settings[f"{catalog}.defaultDatabase"]
