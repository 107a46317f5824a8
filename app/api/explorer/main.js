// The page: its state is in the address, and every part shows what of the state it is about.

import { ask, segment, tablePath, token } from "./api.js";
import { Catalog } from "./catalog.js";
import { asCurl, asSql, copy } from "./copy.js";
import { DECISIONS } from "./decisions.js";
import { fill, find, h, muted, number } from "./dom.js";
import { FilePanel } from "./file.js";
import { Filter } from "./filter.js";
import { showFunnel, showLegend } from "./funnel.js";
import { showHealth } from "./health.js";
import { Hints } from "./hints.js";
import { Picture } from "./picture.js";
import { askPlan, questionOf, versionOf } from "./plan.js";
import { factsOf, showSchema } from "./schema.js";
import { Versions } from "./versions.js";

const DEFAULTS = { filter: "", branch: "", snapshot: "", tag: "", tab: "plan", size: "files", group: "", file: "" };
const LINE = ["warehouse", "database", "table", "branch"];
const TABS = ["plan", "schema", "health"];
const MEASURES = { files: "files", size: "bytes", rows: "rows" };
/** Up to so many files the plan follows the typing; above, typing asks the parser alone, and Enter plans. */
const LIVE_FILES = 20_000;

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [warehouse = "", database = "", table = ""] = path.split("/").map(decode);
  return { ...DEFAULTS, ...Object.fromEntries(new URLSearchParams(query)), warehouse, database, table };
}

function write(state) {
  const place = [state.warehouse, state.database, state.table].filter(Boolean).map(segment).join("/");
  const query = new URLSearchParams(Object.keys(DEFAULTS).filter((name) => state[name] !== DEFAULTS[name]).map((name) => [name, state[name]]));
  return `#/${place}${query.size ? `?${query}` : ""}`;
}

let state = {};
let plan = null;
let description = null;
let pressed = null;
let work = new AbortController();
let planning = new AbortController();

const catalog = new Catalog((patch) => go({ ...DEFAULTS, ...patch }));
const versions = new Versions((patch) => go({ ...patch, file: "", group: "" }));
const panel = new FilePanel();
const filter = new Filter(typed);
const hints = new Hints(filter.text);
const picture = new Picture(find("cells"), find("frame"), {
  onPoint: (file) => showFile(file ?? picture.picked),
  onPick: (file) => go({ file: plan.name[file] }, true),
  onGroup: (group) => go({ group: group === null || state.group !== "" ? "" : `${group}` }, true),
});

function go(patch, replaces = false) {
  const next = { ...state, ...patch };
  history[replaces ? "replaceState" : "pushState"](null, "", write(next));
  return show(next);
}

async function show(next) {
  const changed = (...names) => names.some((name) => state[name] !== next[name]);
  const isPlace = changed("warehouse", "database");
  const isLine = changed(...LINE);
  const isOther = isLine || changed("snapshot", "tag");
  const isTab = isOther || changed("tab");
  const isQuestion = isOther || changed("filter");
  state = next;
  if (isOther) {
    work.abort();
    planning.abort();
    document.body.classList.remove("busy");
    work = new AbortController();
  }
  const { signal } = work;
  try {
    if (isPlace) state = { ...state, ...(await catalog.show(next, signal)) };
    catalog.mark(state);
    const hasTable = state.table !== "";
    find("welcome").hidden = hasTable;
    find("table").hidden = !hasTable;
    document.title = hasTable ? `${state.database}.${state.table} · paimon-index` : "paimon-index";
    if (!hasTable) {
      welcome("Which files does a query read, and why?", "Choose a table: each of its files becomes a cell, coloured by what decided about it.");
      return;
    }
    filter.show(state);
    hints.show();
    if (isOther) await showTable(isLine, signal);
    if (isTab) showTab(signal);
    if (isQuestion) await showPlan();
    else if (plan !== null) showPicture();
  } catch (problem) {
    if (problem.name !== "AbortError") fail(problem);
  }
}

function welcome(title, text, ...more) {
  fill(find("welcome"), h("h1", {}, title), h("p", {}, text), more);
}

function fail({ status, message }) {
  find("welcome").hidden = false;
  find("table").hidden = true;
  const needsToken = status === 401;
  welcome(needsToken ? "A token is needed" : "This cannot be shown", message,
    h("button", { onclick: needsToken ? askToken : again }, needsToken ? "Enter a token" : "Try again"));
}

function again() {
  state = {};
  return show(read());
}

async function showTable(isLine, signal) {
  openCatalog(false);
  plan = null;
  picture.show({ plan: null, picked: null });
  for (const id of ["funnel", "legend", "file", "health", "warnings"]) fill(find(id));
  find("title").textContent = `${state.database}.${state.table}`;
  const query = new URLSearchParams(versionOf(state));
  [description] = await Promise.all([ask(`${tablePath(state)}?${query}`, { signal }), isLine && versions.load(state, signal)]);
  versions.show(state);
  panel.types = Object.fromEntries(description.fields.map(({ name, type }) => [name, type]));
  find("facts").textContent = factsOf(description);
  showSchema(description);
}

function showTab(signal) {
  for (const name of TABS) {
    find(name).hidden = name !== state.tab;
    find(`tab-${name}`).ariaSelected = `${name === state.tab}`;
  }
  if (state.tab === "plan" || find("health").hasChildNodes()) return;
  showHealth(description, state, signal).then((sizes) => showSchema(description, sizes)).catch((problem) => {
    if (problem.name !== "AbortError") fill(find("health"), muted(problem.message));
  });
}

async function typed(question, isEntered) {
  if (isEntered || plan === null || plan.count <= LIVE_FILES) return go(question, true);
  planning.abort();
  planning = new AbortController();
  document.body.classList.remove("busy");
  try {
    const body = { ...questionOf({ ...state, ...question }), files: [], selection: "none" };
    await ask(`${tablePath(state)}/plan`, { body, signal: planning.signal });
    filter.say(`Enter plans ${number(plan.count)} files`);
  } catch (problem) {
    if (problem.name !== "AbortError") filter.complain(problem);
  }
  return undefined;
}

async function showPlan() {
  planning.abort();
  planning = new AbortController();
  const { signal } = planning;
  const started = performance.now();
  document.body.classList.add("busy");
  try {
    plan = await askPlan(state, signal);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    document.body.classList.remove("busy");
    if (problem.status === 401) throw problem;
    find("plan").classList.add("stale");
    filter.complain(problem);
    return;
  }
  document.body.classList.remove("busy");
  find("plan").classList.remove("stale");
  filter.say(`planned in ${number(Math.round(performance.now() - started))} ms`);
  pressed = null;
  const totals = plan.totals();
  showFunnel(totals);
  legend(totals);
  find("nothing").hidden = plan.count > 0;
  // What indexes do not tell is no example.
  hints.load(description, state, plan.count, signal).catch(() => {});
  fill(find("warnings"), plan.warnings.map((text) => h("p", {}, text)));
  picture.plan = null;
  showPicture();
  globalThis.explorer.shown = performance.now();
}

function legend(totals) {
  showLegend(totals, pressed, (code, isPressed) => {
    picture.show({ highlighted: code });
    if (!isPressed) return;
    pressed = code;
    const focused = [...find("legend").children].indexOf(document.activeElement);
    legend(totals);
    find("legend").children[focused]?.focus();
  });
}

function showPicture() {
  for (const button of find("measures").children) button.ariaPressed = `${button.value === state.size}`;
  const group = plan.groups[state.group === "" ? -1 : state.group];
  const picked = plan.name.indexOf(state.file);
  const members = { measure: state.size, only: group ? group.number : null, picked: picked < 0 ? null : picked };
  picture.show(picture.plan === plan ? members : { ...members, plan, highlighted: null });
  showFile(picture.picked);
}

function showFile(file) {
  if (file === null) panel.say(`${matchMedia("(pointer: coarse)").matches ? "Tap" : "Point at"} a cell to see what decided about its file, step by step.`);
  else panel.show(plan, file, state, file === picture.picked);
}

function openCatalog(isOpen) {
  find("catalog").classList.toggle("open", isOpen);
  find("open-catalog").ariaExpanded = `${isOpen}`;
}

function askToken(why) {
  find("token-why").textContent = typeof why === "string" ? why : "The service knows who asks by a token.";
  find("secret").value = token.get();
  if (!find("token").open) find("token").showModal();
}

function listen() {
  find("open-token").onclick = askToken;
  addEventListener("token-needed", ({ detail }) => askToken(detail));
  find("token").onclose = ({ target }) => {
    const secret = find("secret").value.trim();
    find("secret").value = "";
    if (target.returnValue !== "use") return;
    token.set(secret);
    again();
  };
  find("open-catalog").onclick = () => openCatalog(!find("catalog").classList.contains("open"));
  fill(find("measures"), Object.entries(MEASURES).map(([value, label]) =>
    h("button", { className: "quiet", value, onclick: () => go({ size: value }, true) }, label)));
  for (const name of TABS) find(`tab-${name}`).onclick = () => go({ tab: name });
  find("copy-curl").onclick = ({ target }) => copy(target, asCurl(state));
  find("copy-sql").onclick = ({ target }) => copy(target, asSql(state));
  addEventListener("popstate", () => show(read()));
}

/** For tests and measurements. */
globalThis.explorer = { picture, hints, DECISIONS, shown: 0, get plan() { return plan; } };

listen();
again();
