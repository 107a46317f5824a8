// How a version of a table is doing, and the service's advice on its indexes.

import { ask, askPages, tablePath } from "./api.js";
import { copy } from "./copy.js";
import { indexName } from "./decisions.js";
import { bytes, fill, find, h, muted, number, percent, plural, table } from "./dom.js";
import { askPlan, versionOf } from "./plan.js";

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** Reads and shows the health of a version; gives the mean bytes of an index by column and kind. */
export async function showHealth(description, state, signal) {
  fill(find("health"), muted("reading…"));
  const query = new URLSearchParams(versionOf(state));
  const base = tablePath(state);
  const [plan, entries, advice] = await Promise.all([
    askPlan({ ...state, filter: "" }, signal),
    askPages(`${base}/index-files?${query}`, "index_files", { most: 20_000, signal }),
    ask(`${base}/advice?${query}`, { signal }),
  ]);
  const [size, rows, deleted] = [sum(plan.size), sum(plan.rows), sum(plan.deleted)];
  const { files_total: total, files_invisible: unseen, manifests_total: manifests } = plan.summary;
  const { savings, files_without_index: without } = advice;
  const isIndexed = without < advice.files;
  const isBucketed = description.bucket_mode !== "bucket_unaware";
  const isParted = description.partition_keys.length && plan.groups.every(({ bucket }) => bucket === plan.groups[0].bucket);
  fill(find("health"),
    h("div", { className: "cards" },
      card("Files", number(plan.count), isBucketed || isParted ? `${bytes(size)} in ${plural(plan.groups.length, isParted ? "partition" : "bucket")}` : bytes(size), unseen > 0 && `${number(unseen)} more that readers do not see yet`),
      card("Deleted rows", number(deleted), `${percent(deleted, rows)} of ${plural(rows, "row")}`),
      card("Manifests", number(manifests), manifests > 0 && `${plural(Math.round(total / manifests), "file")} each`),
      card("Indexes", isIndexed ? percent(advice.index_bytes, advice.data_bytes) : "none", isIndexed && `${bytes(advice.index_bytes)} beside ${bytes(advice.data_bytes)} of data`, without > 0 && `${plural(without, "file")} without one`),
      card("Spared", bytes(savings.bytes), `${plural(savings.files, "file")} left out by indexes alone in ${plural(savings.plans, "plan")}`, savings.money !== null && `worth ${savings.money.toFixed(2)}`)),
    muted(description.iceberg_refusal ?? "Iceberg's clients can read this table."),
    advice.indexes.length > 0 && [h("h2", {}, "Indexes"), indexTable(advice, state), h("div", { id: "values" })],
    h("h2", {}, "Advice"),
    advice.advice.length ? advice.advice.map(adviceCard) : muted("Nothing to advise."),
    advice.command && [advice.statements.map((each) => `${each};`).join("\n"), advice.command].filter(Boolean).map(copied),
    advice.warnings.map((each) => muted(each)),
    h("h2", {}, "Levels"),
    levels(plan),
    entries.length > 0 && [h("h2", {}, "Files of the index manifest"), manifestFiles(entries, size)]);
  return new Map(advice.indexes.filter(({ files }) => files).map(({ column, index, files, bytes: size }) => [`${column} ${index}`, size / files]));
}

const card = (title, figure, ...lines) => h("div", { className: "card" }, h("h3", {}, title), h("p", { className: "figure" }, figure), lines.filter(Boolean).map((line) => muted(line)));

function indexTable({ indexes, data_bytes: data }, state) {
  return table(["column", "index", "size each", "of the data", "files without it", "plans that asked", "that it helped"], indexes.map((each) =>
    [h("button", { title: "its most frequent values", onclick: () => showValues(each.column, state) }, each.column), indexName(each.index), each.files ? bytes(each.bytes / each.files) : "", percent(each.bytes, data), number(each.files_without), number(each.plans_asked), number(each.plans_useful)]));
}

/** The most frequent values of a column, as far as indexes tell them. */
async function showValues(column, state) {
  const place = find("values");
  fill(place, muted("reading…"));
  try {
    const { groups, groups_total: total, open_rows: open } = await ask(`${tablePath(state)}/aggregate`, { body: { ...versionOf(state), group_by: [column], top: 20 } });
    fill(place, h("h2", {}, `Values of ${column}`),
      table(["value", "rows", ""], groups.map(({ key, rows }) => [`${key[column] ?? "NULL"}`, number(rows), h("meter", { value: rows / groups[0].rows })])),
      muted(`${number(total)} values`, open > 0 && `; ${plural(open, "row")} in files whose indexes do not tell`));
  } catch (problem) {
    fill(place, muted(problem.message));
  }
}

const copied = (text) =>
  h("div", { className: "copied" }, h("pre", {}, text), h("button", { className: "quiet", onclick: ({ target }) => copy(target, text) }, "Copy"));

const adviceCard = ({ subject, detail, bytes_saved: saved }) =>
  h("details", { className: "advice" },
    h("summary", {}, subject.replaceAll("-", " "), saved !== null && ` · ${saved < 0 ? "takes" : "saves"} ${bytes(Math.abs(saved))}`),
    h("p", {}, detail));

/** A table of entries by a key of each; `write` gets the key, its entries, and how to add up a member of these. */
const grouped = (names, entries, key, write) => table(names, Object.entries(Object.groupBy(entries, (each) => each[key])).map(([name, some]) =>
  write(name, number(some.length), (member) => sum(some.map((each) => each[member])))));

function levels({ count, level, size, rows, deleted }) {
  const files = Array.from({ length: count }, (_, at) => ({ level: level[at], size: size[at], rows: rows[at], deleted: deleted[at] }));
  return grouped(["level", "files", "size", "rows", "deleted"], files, "level",
    (name, some, total) => [name, some, bytes(total("size")), number(total("rows")), number(total("deleted"))]);
}

function manifestFiles(entries, data) {
  return grouped(["type", "files", "size", "of the data", "entries"], entries, "index_type",
    (type, some, total) => [type.toLowerCase().replaceAll("_", " "), some, bytes(total("file_size")), percent(total("file_size"), data), number(total("row_count"))]);
}
