// One file of a plan: what was tried for it step by step, its rows as a strip, and what its index holds.

import { ask, segment, tablePath } from "./api.js";
import { DECISIONS, indexName, isKept, REASONS } from "./decisions.js";
import { bytes, fill, find, h, muted, number, percent, plural, shortName, swatch, table } from "./dom.js";
import { questionOf } from "./plan.js";

const OUTCOMES = { skip: "no row", keep: "may match", unknown: "cannot tell" };

/** A step's line: what was asked, the outcome, and what the file has. */
function stepEntry({ step, index, outcome, predicate, rows, evidence, fpp, index_bytes: size }) {
  const what = step === "global_index" ? `global ${index ?? "index"}` : index && index !== "min_max" ? indexName(index) : step === "file_index" ? "index" : step.replaceAll("_", " ");
  const found = [evidence, fpp !== null && `false positives ${percent(fpp, 1)}`, size !== null && `index of ${bytes(size)}`];
  return h("li", { className: outcome },
    h("span", { className: "what" }, what),
    h("span", { className: "outcome" }, outcome === "rows" ? plural(rows, "row") : OUTCOMES[outcome]),
    h("code", {}, predicate),
    h("small", {}, found.filter(Boolean).join(", ")));
}

export class FilePanel {
  /** Types of the table's columns by name. */
  types = {};

  say(text) {
    fill(find("file"), muted(text));
  }

  /** Shows a file of a plan; one that was picked with its rows and its index. */
  show(plan, at, state, isPicked) {
    const file = plan.file(at);
    const decision = DECISIONS[plan.decision[at]];
    const kept = isKept(plan.decision[at]);
    const share = (rows) => `${number(rows)} (${percent(rows, file.row_count)})`;
    const facts = {
      size: bytes(file.file_size),
      rows: number(file.row_count),
      "to read": kept ? share(file.selected_rows) : null,
      deleted: file.deletion ? share(plan.deleted[at]) : null,
      level: file.level,
      in: plan.groups[plan.group[at]].label || null,
    };
    const strip = h("div", { className: "strip" });
    fill(find("file"),
      h("h2", { title: file.path }, shortName(file.file_name)),
      h("p", { className: "verdict" }, swatch(decision.name), h("b", {}, kept ? "kept" : `skipped by ${decision.label}`), ": ",
        kept ? REASONS[file.decision_reason] ?? file.decision_reason : decision.meaning),
      h("dl", {}, Object.entries(facts).filter(([, value]) => value !== null).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
      strip,
      h("ol", { className: "steps" }, file.explain.map(stepEntry)),
      isPicked ? this.#indexes(file, state) : muted("Click, or press Enter, for its rows and its index."));
    if (isPicked && kept && file.row_count > 0) this.#showRows(strip, file, plan.snapshot, state);
  }

  async #showRows(strip, { file_name: name, row_count: rows }, snapshot, state) {
    const { tag, ...question } = questionOf(state);
    const body = { ...question, snapshot_id: snapshot, files: [name], selection: "ranges", deletions: "ranges" };
    try {
      const { files } = await ask(`${tablePath(state)}/plan`, { body });
      const { selection, selected_rows: selected, deleted_rows: deleted } = files.find((each) => each.file_name === name);
      const canvas = h("canvas", { role: "img", ariaLabel: `${number(selected)} of ${number(rows)} rows are read` });
      fill(strip, canvas, muted(h("span", {}, "row 0"), h("span", {}, number(rows - 1))));
      drawStrip(canvas, rows, selection, deleted ?? []);
    } catch (problem) {
      fill(strip, muted(problem.message));
    }
  }

  #indexes({ path, deletion }, state) {
    const shown = h("div", {});
    const open = async (place, kind) => {
      fill(shown, muted("reading…"));
      try {
        fill(shown, contents(await inspect(place, kind, this.types, state)));
      } catch (problem) {
        fill(shown, muted(problem.status === 404 ? "No index file lies beside this data file; a small index lies in the manifest." : problem.message));
      }
    };
    return h("div", {},
      h("button", { onclick: () => open(`${path}.index`, "file_index") }, "Index file"), " ",
      deletion ? h("button", { onclick: () => open(deletion.path, "deletion_vectors") }, "Deletion vectors") : null,
      shown);
  }
}

/** What is in an index file. */
export function inspect(path, kind, types, { warehouse }, signal, page = {}) {
  const query = kind === "deletion_vectors" ? "" : `?schema=${segment(JSON.stringify(types))}`;
  return ask(`v1/${segment(warehouse)}/index-files/inspect${query}`, { body: { path, kind, ...page }, signal });
}

function contents({ columns, vectors }) {
  if (vectors) return table(["vector at", "size", "rows"], vectors.map((each) => [number(each.offset), bytes(each.size), number(each.cardinality)]));
  const about = ({ error, empty, cardinality, min, max, bits, null_count: nulls }) => [
    error?.detail, empty && "empty", cardinality != null && plural(cardinality, "value"), min != null && `${cut(min)} to ${cut(max)}`,
    bits && plural(bits, "bit"), nulls && plural(nulls, "null"),
  ].filter(Boolean).join(", ");
  return table(["column", "index", "size"], columns.flatMap(({ name, indexes }) =>
    indexes.map((index) => [name, [indexName(index.type), h("small", {}, about(index))], bytes(index.length)])));
}

function cut(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

/** Rows from left to right: those that are read, and below them those that are deleted. */
function drawStrip(canvas, rows, selection, deleted) {
  canvas.width = canvas.clientWidth * devicePixelRatio;
  canvas.height = canvas.clientHeight * devicePixelRatio;
  const context = canvas.getContext("2d");
  const draw = (ranges, colour, top, bottom) => {
    context.fillStyle = getComputedStyle(canvas).getPropertyValue(`--${colour}`);
    for (const [start, end] of ranges) {
      const x = Math.floor((start / rows) * canvas.width);
      context.fillRect(x, top, Math.max(devicePixelRatio, (end / rows) * canvas.width - x), bottom - top);
    }
  };
  const middle = deleted.length ? Math.round(canvas.height * 0.7) : canvas.height;
  draw([[0, rows]], "kept-rest", 0, middle);
  draw(selection ?? [[0, rows]], "kept", 0, middle);
  if (selection === null) draw(deleted, "kept-rest", 0, middle);
  draw(deleted, "deletion_vector", middle, canvas.height);
}
