// A plan as arrays: what the picture and the bars need of every file, and the line that has the rest.

import { send, tablePath } from "./api.js";
import { codeOf, DECISIONS, isKept } from "./decisions.js";
import { parse, readLines } from "./lines.js";

/** The members of a request that name the version. */
export function versionOf({ branch, snapshot, tag }) {
  const version = branch ? { branch } : {};
  if (tag) version.tag = tag;
  else if (snapshot) version.snapshot_id = Number(snapshot);
  return version;
}

/** The body of a plan's request, without the form of its answer. */
export function questionOf(state) {
  const body = versionOf(state);
  if (state.filter.trim()) body.filter = state.filter;
  return body;
}

/** Numbers of each file, by the member of a line that has them. */
const NUMBERS = { size: "file_size", rows: "row_count", selected: "selected_rows", level: "level", sequence: "min_sequence_number" };

/**
 * Arrays have an entry for each file: `size`, `rows`, `selected`, `deleted` and `level` are numbers, `decision` is a
 * code in DECISIONS, `group` a number in `groups`, `name` a text. `order` has the files as they are drawn: by
 * partition, bucket, level and age, the same for every filter.
 */
export class Plan {
  constructor(question, lines, files, end) {
    Object.assign(this, { question, lines, summary: end.summary, snapshot: end.snapshot_id, warnings: end.warnings });
    this.count = files.length;
    for (const [name, member] of Object.entries(NUMBERS)) this[name] = Float64Array.from(files, (file) => file[member] ?? 0);
    this.deleted = Float64Array.from(files, ({ deletion }) => deletion?.cardinality ?? 0);
    this.decision = Uint8Array.from(files, codeOf);
    this.name = files.map((file) => file.file_name);
    this.#group(files);
    const { group, level, sequence, name } = this;
    this.order = Uint32Array.from(files, (_, file) => file);
    this.order.sort((a, b) => group[a] - group[b] || level[b] - level[a] || sequence[a] - sequence[b] || (name[a] < name[b] ? -1 : 1));
  }

  #group(files) {
    const seen = new Map();
    const found = Array.from(files, ({ partition, bucket }) => {
      const key = JSON.stringify([partition, bucket]);
      if (!seen.has(key)) seen.set(key, { partition, bucket });
      return seen.get(key);
    });
    this.groups = [...seen.values()];
    const columns = Object.keys(this.groups[0]?.partition ?? {});
    const keys = ({ partition, bucket }) => [...columns.map((column) => partition[column]), bucket];
    this.groups.sort((a, b) => compare(keys(a), keys(b)));
    const isOneBucket = new Set(this.groups.map(({ bucket }) => bucket)).size < 2;
    this.groups.forEach((group, number) => {
      const values = columns.map((column) => `${columns.length > 1 ? `${column}=` : ""}${group.partition[column]}`);
      group.label = [...values, ...(isOneBucket ? [] : [`bucket ${group.bucket}`])].join(" · ");
      group.number = number;
    });
    this.group = Uint32Array.from(found, ({ number }) => number);
  }

  /** All members of one file. */
  file(number) {
    return parse(this.lines[number]);
  }

  /** Files, rows and bytes by what decided, and the rows of kept files that are selected. */
  totals() {
    const found = DECISIONS.map(() => ({ files: 0, rows: 0, bytes: 0, selected: 0 }));
    for (let file = 0; file < this.count; file += 1) {
      const total = found[this.decision[file]];
      total.files += 1;
      total.rows += this.rows[file];
      total.bytes += this.size[file];
      if (isKept(this.decision[file])) total.selected += this.selected[file];
    }
    return found;
  }
}

const texts = new Intl.Collator("en", { numeric: true });

function compare(one, other) {
  for (let at = 0; at < one.length; at += 1) {
    const [a, b] = [one[at], other[at]];
    const found = typeof a === "number" && typeof b === "number" ? a - b : texts.compare(a ?? "", b ?? "");
    if (found) return found;
  }
  return 0;
}

/** The plan of every file for the filter and version of the state. */
export async function askPlan(state, signal) {
  const body = { ...questionOf(state), explain: true, selection: "count" };
  const response = await send(`${tablePath(state)}/plan`, { body, accept: "application/x-ndjson", signal });
  const lines = [];
  const files = [];
  for await (const some of readLines(response.body)) {
    for (const line of some) {
      const file = parse(line);
      if (file.summary) return new Plan(state.filter, lines, files, file);
      lines.push(line);
      files.push(file);
    }
  }
  throw new Error("the answer was cut off");
}
