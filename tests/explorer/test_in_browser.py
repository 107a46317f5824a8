import json
import re
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from app.main import create_app
from app.settings import Settings
from benchmarks.events import Indexed, Layout
from benchmarks.synthetic import write_table
from tests import tokens
from tests.api.conftest import listening
from tests.explorer.browser import DESKTOP, PHONE, Page
from tests.explorer.conftest import SAMPLES, OpenPage

SESSIONS: Final = "main/demo/sessions"
FEE: Final = "fee = 58.43"
KEPT: Final = "data-a5ef52ca-e60b-494e-bf0d-5b2b3907bf12-0.parquet"
STORY: Final = "story/golden/bench"
MANY_REASONS: Final = (
    "day BETWEEN DATE '2020-01-04' AND DATE '2020-01-26' AND c1 < 700000 AND cat >= 1100 AND score > 980000"
)

# Left edge, upper edge, width and height of a file's cell, in pixels of the canvas.
CELL_OF: Final = """
const cellOf = (file) => {
  const at = 4 * explorer.picture.at[file];
  return explorer.picture.places.cells.subarray(at, at + 4);
};
"""
# The decision of each file as the page has it, and the colour of its cell's lower left corner beside the
# stylesheet's.
CELLS: Final = (
    CELL_OF
    + """
const {plan, picture, DECISIONS} = explorer;
const styles = getComputedStyle(document.documentElement);
const context = picture.cells.getContext("2d");
return Array.from({length: plan.count}, (_, file) => {
  const [x, y, , high] = cellOf(file);
  const corner = Math.max(Math.round(y), Math.round(y + high) - 2);
  const colour = [...context.getImageData(Math.round(x), corner, 1, 1).data].slice(0, 3);
  const decision = DECISIONS[plan.decision[file]].name;
  const digits = styles.getPropertyValue(`--${decision}`).match(/[0-9a-f]{2}/g);
  const wanted = digits.map((each) => parseInt(each, 16));
  return {name: plan.name[file], decision, colour, wanted};
});
"""
)


# Words of headings and of cells that stand on more than one line, and lines of commands that are cut.
BROKEN_WORDS: Final = """
const broken = [...document.querySelectorAll("th, td")].flatMap((cell) => {
  const words = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const found = [];
  while (words.nextNode()) {
    for (const {0: word, index} of words.currentNode.data.matchAll(/[^\\s-]+/g)) {
      const range = new Range();
      range.setStart(words.currentNode, index);
      range.setEnd(words.currentNode, index + word.length);
      if (new Set([...range.getClientRects()].map(({top}) => Math.round(top))).size > 1) found.push(word);
    }
  }
  return found;
});
const cut = [...document.querySelectorAll("pre")].filter((each) => each.scrollWidth > each.clientWidth);
return [...broken, ...cut.map(({textContent}) => textContent)];
"""


def decisions_of(page: Page, place: str, filter_: str) -> dict[str, str]:
    """Return what decided about each file, as the API tells it: kept files, steps, and kinds of indexes."""
    warehouse, database, table = place.split("/")
    url = f"{page.address}/v1/{warehouse}/databases/{database}/tables/{table}/plan"
    body = {"filter": filter_, "explain": True, "selection": "count"}
    answer = httpx.post(url, json=body, headers={"Accept": "application/x-ndjson"}, timeout=60)
    files = [json.loads(line) for line in answer.raise_for_status().text.splitlines()[:-1]]
    return {file["file_name"]: decision_of(file) for file in files}


def decision_of(file: dict[str, Any]) -> str:
    reason: str = file["decision_reason"]
    if not file["skipped"]:
        decided = {"merge_required": "merge", **dict.fromkeys(("matched", "no_filter"), "kept")}
        return decided.get(reason, "undecided")
    kinds = {step["index"] for step in file["explain"] if step["outcome"] == "skip" and step["index"]}
    return str(*kinds) if reason == "file_index" and len(kinds) == 1 else reason


def type_filter(page: Page, text: str) -> None:
    page.type("#filter", text)
    page.until("return explorer.plan.question === arguments[0] && !document.body.matches('.busy')", text)


def test_a_typed_filter_colours_the_cells_as_the_plan_says(page: Page) -> None:
    page.open(SESSIONS)
    assert {cell["decision"] for cell in page.run(CELLS)} == {"kept"}

    type_filter(page, FEE)
    cells = page.run(CELLS)

    assert {cell["name"]: cell["decision"] for cell in cells} == decisions_of(page, SESSIONS, FEE)
    assert [cell["colour"] for cell in cells] == [cell["wanted"] for cell in cells]
    assert sorted(cell["decision"] for cell in cells) == ["bsi"] * 7 + ["kept"] * 3
    assert "3 of 10 files" in page.text("#funnel")
    assert "8 of 1,113 rows" in page.text("#funnel")
    assert page.text("#legend").split() == ["may", "match", "3", "bit-sliced", "index", "7"]
    assert page.faults() == []


def test_a_table_comes_with_filters_to_begin_with(page: Page) -> None:
    page.open(SESSIONS)
    page.until("return document.querySelectorAll('#hints button').length === 2")
    examples = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, "#hints button")]

    page.driver.find_elements(By.CSS_SELECTOR, "#hints button")[0].click()
    page.until("return explorer.plan.question === arguments[0]", examples[0])

    assert examples == ["rank_no < 5029", "session_no = 'amber_00020'"]
    assert page.run("return explorer.plan.summary.files_kept") > 0
    assert page.faults() == []


def test_a_table_with_global_indexes_has_their_keys_as_examples(page: Page) -> None:
    page.open("global/pypaimon/parts")
    page.until("return document.querySelectorAll('#hints button').length > 1")
    examples = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, "#hints button")]

    page.driver.find_elements(By.CSS_SELECTOR, "#hints button")[0].click()
    page.until("return explorer.plan.question === arguments[0]", examples[0])

    assert examples[:2] == ["n IN (0, 9)", "s = 's0'"]  # a BTree's first and last key, a bitmap's first
    assert page.run("return explorer.plan.summary.files_kept") > 0
    assert page.faults() == []


def test_a_word_becomes_one_of_the_columns_which_show_a_value(page: Page) -> None:
    page.open(SESSIONS)
    page.until("return document.querySelectorAll('#hints button').length === 2")

    page.type("#filter", "fee > 5 AND gra")
    offered = page.text("#hints").split()
    page.click("#hints button")

    assert offered[0] == "grade"
    assert page.run("return document.getElementById('filter').value") == "fee > 5 AND grade"


@pytest.mark.parametrize(
    ("column", "written"), [("null", "`null`"), ("nullable", "nullable"), ("n`x", "`n``x`")]
)
def test_a_column_that_is_a_word_of_conditions_is_quoted(page: Page, column: str, written: str) -> None:
    page.open(SESSIONS)
    page.until("return document.querySelectorAll('#hints button').length === 2")
    page.run("explorer.hints.columns = [{ name: arguments[0], type: 'INT' }]", column)

    page.type("#filter", "n")
    page.click("#hints button")

    assert page.run("return document.getElementById('filter').value") == written


def test_warnings_stand_between_the_filter_and_the_picture_and_undecided_files_apart(page: Page) -> None:
    page.size(390, 844, is_phone=True)
    page.open(SESSIONS, filter="abs(grade) = 5")
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"

    assert page.text("#warnings")
    assert page.run(top, "#message") < page.run(top, "#warnings") < page.run(top, ".picture")
    assert page.text("#legend").split() == ["undecided", "10"]
    page.screenshot("phone-undecided")


@pytest.mark.parametrize(
    ("place", "filter_", "decisions"),
    [
        (STORY, MANY_REASONS, {"kept", "partition", "statistics", "range-bitmap", "bitmap", "file_index"}),
        ("main/demo/users", "uid = 999999967", {"undecided", "merge", "bucket", "key_statistics"}),
        ("main/demo/sessions", "session_no = 's'", {"bloom-filter", "statistics"}),
        ("golden/golden/pk_merge", "TRUE", {"kept", "merge"}),
        (
            "golden/golden/pk_dv",
            "part_day = 'p1' AND acct = 7 AND key_b = 'x'",
            {"partition", "bucket", "key_statistics"},
        ),
    ],
)
def test_cells_of_every_kind_have_their_colour(
    page: Page, place: str, filter_: str, decisions: set[str]
) -> None:
    page.open(place, filter=filter_)
    cells = page.run(CELLS)
    expected = decisions_of(page, place, filter_)

    assert {cell["name"]: cell["decision"] for cell in cells} == expected
    assert set(expected.values()) == decisions
    assert [cell["colour"] for cell in cells] == [cell["wanted"] for cell in cells]
    assert page.faults() == []


def test_a_file_tells_its_steps_its_rows_and_its_index(page: Page) -> None:
    page.open(SESSIONS, filter=FEE, file=KEPT)
    page.until("return document.querySelector('.strip canvas')")

    assert page.text("#file .verdict") == "kept: nothing that was asked rules it out"
    steps = [item.text.split("\n") for item in page.driver.find_elements(By.CSS_SELECTOR, ".steps li")]
    assert steps == [
        ["statistics", "cannot tell", FEE, "fee min 14.93 max 64.18"],
        ["bit-sliced index", "3 rows", FEE, "index of 1.8 KB"],
    ]
    label = "return document.querySelector('.strip canvas').ariaLabel"
    assert page.run(label) == "3 of 128 rows are read"

    page.click("//button[text()='Index file']", by=By.XPATH)
    page.until("return document.querySelector('#file table')")
    assert "fee bit-sliced index" in page.text("#file table").replace("\n", " ")
    assert page.faults() == []


def test_pointing_at_a_cell_shows_its_file(page: Page) -> None:
    page.open(SESSIONS, filter=FEE)
    place = page.run(
        CELL_OF
        + """const [x, y, wide, high] = cellOf(explorer.plan.name.indexOf(arguments[0]));
        const frame = document.getElementById("frame").getBoundingClientRect();
        return [frame.left + x + wide / 2, frame.top + y + high / 2]""",
        KEPT,
    )
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.driver.execute_cdp_cmd(
            "Input.dispatchMouseEvent",
            {"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1},
        )
        assert page.run("return document.querySelector('#file h2').title").endswith(KEPT)
    page.until("return document.querySelector('.strip canvas')")
    assert KEPT in page.driver.current_url


def test_everything_can_be_done_by_keyboard(page: Page) -> None:
    page.open()
    page.until("return document.querySelector('#catalog option[value=main]')")
    page.run("document.querySelector('#catalog select').value = 'main';")
    page.run("document.querySelector('#catalog select').dispatchEvent(new Event('change'));")
    page.until("return document.querySelectorAll('#catalog li').length === 3")

    page.run("document.querySelector('#catalog input').focus()")
    page.press("sess", Keys.ENTER)
    page.until("return explorer.plan?.count === 10")
    page.tab_to("filter")
    page.press(FEE, Keys.ENTER)
    page.until("return explorer.plan.summary.files_kept === 3")
    page.tab_to("frame")
    page.press("n")
    assert page.text("#file .verdict").startswith("kept")
    page.press(Keys.HOME)
    first = page.run("return document.querySelector('#file h2').title")
    page.press(Keys.ARROW_RIGHT)
    page.press(Keys.ARROW_LEFT)
    assert page.run("return document.querySelector('#file h2').title") == first
    page.press(Keys.ARROW_DOWN)
    assert page.run("return document.querySelector('#file h2').title") != first
    page.press("n", Keys.ENTER)
    page.until("return location.hash.includes('file=data-')")
    page.tab_to("copy-curl")
    assert page.faults() == []


def test_the_parser_speaks_at_the_place_that_it_means(page: Page) -> None:
    page.open(SESSIONS)

    page.type("#filter", "fee = = 58.43")
    page.until("return document.querySelector('#message.bad')")

    assert "expected a value after =, found '='" in page.text("#message")
    assert "character 7" in page.text("#message")
    assert page.run("return document.querySelector('#marks mark').textContent") == "="
    # The mark lies where the text field shows the character.
    offset, width = page.run(
        """const canvas = document.createElement("canvas").getContext("2d");
        canvas.font = getComputedStyle(document.getElementById("filter")).font;
        const mark = document.querySelector("#marks mark").getBoundingClientRect();
        const field = document.getElementById("filter").getBoundingClientRect();
        return [mark.left - field.left, canvas.measureText("fee = ").width]"""
    )
    assert offset == pytest.approx(width, abs=1)

    type_filter(page, FEE)
    assert page.run("return document.querySelector('#marks mark')") is None
    assert "planned in" in page.text("#message")


def test_the_address_restores_everything(page: Page) -> None:
    page.open("golden/golden/versions", snapshot="5", size="rows", filter="1 = 1")
    page.run("document.getElementById('frame').focus()")
    page.press("n", Keys.ENTER)
    page.until("return location.hash.includes('file=')")
    address = page.driver.current_url

    def shown() -> Any:
        return page.run(
            """return [document.getElementById("filter").value, document.getElementById("title").textContent,
            document.querySelector(".dot[aria-pressed=true] span").textContent, explorer.plan.snapshot,
            document.querySelector("#measures [aria-pressed=true]").value,
            document.querySelector("#file h2").title]"""
        )

    before = shown()
    page.driver.switch_to.new_window("tab")
    page.driver.get(address)
    page.until("return globalThis.explorer?.plan && document.querySelector('#file h2')")

    assert shown() == before
    assert before[:5] == ["1 = 1", "golden.versions", "5", 5, "rows"]
    page.driver.back()


@pytest.mark.parametrize(("place", "told"), [("main/demo/nope", "nope"), ("main/demo/%E0", "%E0")])
def test_a_place_that_is_not_there_is_told(page: Page, place: str, told: str) -> None:
    page.driver.get("about:blank")
    page.driver.get(f"{page.address}/ui#/{place}")

    page.until("return document.querySelector('#welcome button')")
    assert told in page.text("#welcome p")


def test_versions_are_a_line_with_tags_and_branches(page: Page) -> None:
    page.open("golden/golden/versions")
    tagged = page.driver.find_element(By.XPATH, "//button[contains(@title, 'tag v2')]")

    tagged.click()
    page.until("return explorer.plan?.snapshot === 2")
    assert re.search("snapshot=2|tag=v2", page.driver.current_url)
    branches = page.driver.find_elements(By.CSS_SELECTOR, "#versions option")
    assert branches[0].text == "main branch"
    assert len(branches) > 1


def test_changes_are_those_since_the_snapshot_before(page: Page) -> None:
    url = f"{page.address}/v1/golden/databases/golden/tables/versions"
    first, *_, before, newest = (
        each["id"] for each in httpx.get(f"{url}/snapshots", timeout=120).json()["snapshots"]
    )
    body = {"snapshot_id": newest, "from_snapshot_id": before}
    answer = httpx.post(f"{url}/changes", json=body, timeout=60).raise_for_status().json()
    changed = len(answer["added"]) + len(answer["removed"])
    page.open("golden/golden/versions")

    page.click("//button[text()='Changes']", by=By.XPATH)
    page.until("return document.querySelector('#changes table')")

    assert page.text("#changes p").startswith(f"Since snapshot {before}, {len(answer['added'])} file")
    assert page.run("return document.querySelectorAll('#changes tbody tr').length") == changed > 0
    page.screenshot("changes")
    assert page.faults() == []
    page.click(f"//button[starts-with(@title, 'snapshot {first},')]", by=By.XPATH)
    page.until("return explorer.plan?.snapshot === arguments[0]", first)
    assert page.text("#changes") == ""
    assert page.driver.find_elements(By.XPATH, "//button[text()='Changes']") == []


def test_a_token_stays_in_its_tab(open_page: OpenPage, tmp_path: Path) -> None:
    given = "pix_explorer-test"
    file = tokens.write(tmp_path / "tokens.json", tokens.entry("explorer", given))
    settings = Settings.load(warehouses={"main": str(SAMPLES)}, tokens_file=str(file))
    with listening(create_app(settings), lifespan="on") as client:
        page = open_page(str(client.base_url).rstrip("/"))
        page.driver.get(f"{page.address}/ui#/{SESSIONS}")
        page.until("return document.getElementById('token').open")
        assert "a token is needed" in page.text("#token-why")

        page.type("#secret", given)
        page.press(Keys.ENTER)
        page.until("return globalThis.explorer?.plan")

        assert page.run("return [localStorage.length, document.cookie, location.href.includes('pix_')]") == [
            0,
            "",
            False,
        ]
        assert page.run("return Object.values(sessionStorage)") == [given]
        page.driver.switch_to.new_window("tab")
        page.driver.get(f"{page.address}/ui#/{SESSIONS}")
        page.until("return document.getElementById('token').open")


def test_what_is_copied_asks_the_same(page: Page) -> None:
    page.open(SESSIONS, filter="owner = 'it''s'")

    curl, sql, escaped = page.run(
        """return import("./ui/copy.js").then(({asCurl, asSql}) => {
        const state = {warehouse: "main", database: "demo", table: "sessions", filter: "owner = 'it''s'",
                       branch: "", snapshot: "2", tag: ""};
        const quoted = {...state, snapshot: "", tag: "it's \\\\"};
        return [asCurl(state), asSql(state), asSql(quoted)]})"""
    )

    assert curl.startswith(f"curl -s '{page.address}/v1/main/databases/demo/tables/sessions/plan'")
    body = curl.partition("-d ")[2].removeprefix("'").removesuffix("'").replace("'\\''", "'")
    assert json.loads(body) == {"filter": "owner = 'it''s'", "snapshot_id": 2, "selection": "ranges"}
    assert sql == "SELECT *\nFROM main.demo.sessions VERSION AS OF 2\nWHERE owner = 'it''s';"
    assert r"VERSION AS OF 'it\'s \\'" in escaped


def test_every_view_keeps_to_the_policy_and_the_console_stays_empty(page: Page) -> None:
    for place, tab in (
        (SESSIONS, "schema"),
        (SESSIONS, "health"),
        ("golden/golden/pk_merge", "plan"),
        ("golden/golden/empty", "plan"),
    ):
        page.open(place, tab=tab)
        if tab != "plan":
            page.until("return document.querySelector('#health .cards')")
        assert page.faults() == []

    # The policy is in force, and what it refuses is seen.
    page.run("document.body.setAttribute('style', 'color: red')")
    page.run("document.body.append(Object.assign(new Image(), {src: 'https://other.example/'}))")
    page.until("return faults.length >= 2")


@pytest.mark.parametrize(
    ("device", "scheme"),
    [pytest.param("desktop", "light", marks=pytest.mark.long), ("phone", "dark")],
)
def test_it_fits_the_window_in_light_and_dark(page: Page, device: str, scheme: str) -> None:
    page.prefer(scheme)
    page.size(*(PHONE if device == "phone" else DESKTOP), is_phone=device == "phone")

    # What a phone's page is wider by, its window grows by: the device's width is the measure.
    wide = PHONE[0] if device == "phone" else DESKTOP[0]
    for place in (SESSIONS, STORY):
        for tab in ("schema", "health", "plan"):
            page.open(place, filter=MANY_REASONS if place == STORY else "", tab=tab)
            if tab != "plan":
                page.until("return document.querySelector('#health .cards')")
            assert page.run("return document.documentElement.scrollWidth") <= wide
            assert page.run(BROKEN_WORDS) == []
    hint = "Tap a cell" if device == "phone" else "Point at a cell"
    assert page.text("#file").startswith(hint)
    page.run("document.getElementById('frame').focus()")
    page.press("n", "n", "n", Keys.ENTER)
    page.until("return document.querySelector('.strip canvas')")
    page.screenshot(f"{device}-{scheme}")
    red, *_ = re.findall(r"\d+", page.run("return getComputedStyle(document.body).backgroundColor"))
    assert (int(red) < 64) == (scheme == "dark")


@pytest.mark.long
def test_a_hundred_thousand_files_are_cells(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    write_table(tmp_path / "warehouse", Layout(Indexed.NOTHING, numbers=2), 100_000)
    settings = Settings.load(warehouses={"main": str(tmp_path / "warehouse")}, deadline_seconds=120)
    with listening(create_app(settings), lifespan="on") as client:
        page = open_page(str(client.base_url).rstrip("/"))

        page.open("main/golden/bench", filter="day < DATE '2021-06-01' AND c1 < 300000")

        assert page.run("return explorer.plan.count") == 100_000
        files = page.run("return new Set(explorer.picture.files).size")
        assert files > 90_000
        page.screenshot("100000-files")


def test_health_shows_advice_and_the_values_of_a_column(page: Page) -> None:
    page.open(SESSIONS, tab="health")
    page.until("return document.querySelector('#health .advice')")

    page.run("document.querySelector('#health .advice').open = true")
    advice = page.text("#health .advice")
    buttons = "[...document.querySelectorAll('#health button')]"
    page.run(buttons + ".find((each) => each.textContent === 'owner').click()")
    page.until("return document.querySelector('#values table')")

    assert "make room for 130 values" in advice
    assert "too little for any index to matter" in page.text("#health")
    assert "values" in page.text("#values")
    assert page.run("return document.querySelectorAll('#values tbody tr').length") == 20
    page.screenshot("health")
    page.open("advised/golden/made0", tab="health")
    page.until("return document.querySelector('#health pre')")
    statements, command = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, "#health pre")]
    assert "SET TBLPROPERTIES ('file-index.bloom-filter.city.items'" in statements
    assert command.startswith("paimon-index job build-index golden.made0 --warehouse")
    page.run("navigator.clipboard.writeText = async (text) => { (globalThis.copied ??= []).push(text) }")
    for button in page.driver.find_elements(By.CSS_SELECTOR, "#health .copied button"):
        button.click()
    assert page.run("return copied") == page.run(
        "return [...document.querySelectorAll('#health pre')].map((each) => each.textContent)"
    )
    assert page.faults() == []
