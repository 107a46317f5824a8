// How a version of a table is doing. Index files beside data files are told by a sample, since each is a read.

import { askPages, segment, tablePath } from "./api.js";
import { indexName } from "./decisions.js";
import { bytes, fill, find, h, muted, number, percent, plural, table } from "./dom.js";
import { inspect } from "./file.js";
import { askPlan, versionOf } from "./plan.js";

const SAMPLE = 24;
const AT_ONCE = 4;
const SMALL = 0.7;
const UNITS = { "": 0, b: 0, k: 1, m: 2, g: 3, t: 4 };

function targetSize({ options, primary_keys: keys }) {
  const [, amount, unit] = /^\s*(\d+)\s*([bkmgt]?)/i.exec(options["target-file-size"] ?? "") ?? ["", keys.length ? 128 : 256, "m"];
  return amount * 1024 ** UNITS[unit.toLowerCase()];
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const keyOf = (column, type) => `${column} ${type}`;

/** Reads index files of some data files; none after the first few where no data file has one beside it. */
async function sampleIndexes(plan, wanted, types, state, signal) {
  const found = { asked: 0, files: 0, bytes: 0, data: 0, lengths: new Map(wanted.map((key) => [key, []])) };
  const count = Math.min(SAMPLE, plan.count);
  for (let start = 0; start < count && (start === 0 || found.files > 0); start += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, count - start) }, (_, at) => Math.floor(((start + at) * plan.count) / count));
    await Promise.all(some.map(async (at) => {
      found.asked += 1;
      let index;
      try {
        index = await inspect(`${plan.file(at).path}.index`, "file_index", types, state, signal);
      } catch (problem) {
        if (problem.name === "AbortError") throw problem;
        return;
      }
      found.files += 1;
      found.bytes += index.size;
      found.data += plan.size[at];
      for (const { name, indexes } of index.columns) {
        for (const { type, length } of indexes) {
          const key = keyOf(name, type);
          found.lengths.set(key, [...(found.lengths.get(key) ?? []), length]);
        }
      }
    }));
  }
  return found;
}

/** Reads and shows the health of a version; gives the mean bytes of an index by column and kind. */
export async function showHealth(description, state, types, signal) {
  fill(find("health"), muted("reading…"));
  const query = new URLSearchParams(versionOf(state));
  const [plan, entries] = await Promise.all([
    askPlan({ ...state, filter: "" }, signal),
    askPages(`${tablePath(state)}/index-files?${query}`, "index_files", { most: 20_000, signal }),
  ]);
  const wanted = description.indexes.map(({ column, type }) => keyOf(column, type));
  const sample = await sampleIndexes(plan, wanted, types, state, signal);
  const [size, rows, deleted] = [sum(plan.size), sum(plan.rows), sum(plan.deleted)];
  const target = targetSize(description);
  const small = plan.size.filter((each) => each < target * SMALL).length;
  const { files_total: total, files_invisible: unseen, manifests_total: manifests } = plan.summary;
  fill(find("health"),
    h("div", { className: "cards" },
      card("Files", number(plan.count), `${bytes(size)} in ${plural(plan.groups.length, "bucket")}`, unseen > 0 && `${number(unseen)} more that readers do not see yet`),
      card("Small files", number(small), `below 70 % of the target-file-size, ${number(target / 1024 ** 2)} MiB`),
      card("Deleted rows", number(deleted), `${percent(deleted, rows)} of ${plural(rows, "row")}`),
      card("Manifests", number(manifests), manifests > 0 && `${number(Math.round(total / manifests))} files each`),
      indexCard(sample, wanted.length > 0)),
    sample.files > 0 && indexTable(sample),
    h("h2", {}, "Levels"),
    levels(plan),
    entries.length > 0 && [h("h2", {}, "Files of the index manifest"), manifestFiles(entries, size)]);
  return new Map([...sample.lengths].filter(([, found]) => found.length).map(([key, found]) => [key, sum(found) / found.length]));
}

const card = (title, figure, ...lines) => h("div", { className: "card" }, h("h3", {}, title), h("p", { className: "figure" }, figure), lines.filter(Boolean).map((line) => muted(line)));

function indexCard({ asked, files, bytes: size, data }, isWanted) {
  if (files > 0) {
    return card("Index files", percent(size, data), `of the size of their data, ${bytes(size / files)} each`, `${number(files)} of ${plural(asked, "data file")} asked have one`);
  }
  return card("Index files", "none", isWanted ? "beside the data files asked; small ones lie in manifests" : "the options name no index");
}

function indexTable({ files, data, lengths }) {
  const rows = [...lengths].sort().map(([key, found]) => {
    const type = key.slice(key.lastIndexOf(" ") + 1);
    const size = sum(found);
    return [key.slice(0, -type.length - 1), indexName(type), found.length ? bytes(size / found.length) : "", percent(size, data), `${files - found.length} of ${files}`];
  });
  return [h("h2", {}, "Indexes beside data files"), table(["column", "index", "size each", "of the data", "index files without it"], rows)];
}

/** A table of entries by a key of each: how many, and sums of the members that are named. */
function grouped(names, entries, key, members, write) {
  const found = new Map();
  for (const entry of entries) {
    const sums = found.get(entry[key]) ?? [0, ...members.map(() => 0)];
    found.set(entry[key], sums.map((value, at) => value + (at === 0 ? 1 : entry[members[at - 1]])));
  }
  return table(names, [...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, sums]) => write(name, ...sums)));
}

function levels({ count, level, size, rows, deleted }) {
  const files = Array.from({ length: count }, (_, at) => ({ level: level[at], size: size[at], rows: rows[at], deleted: deleted[at] }));
  return grouped(["level", "files", "size", "rows", "deleted"], files, "level", ["size", "rows", "deleted"],
    (name, some, all, live, gone) => [name, number(some), bytes(all), number(live), number(gone)]);
}

function manifestFiles(entries, data) {
  return grouped(["type", "files", "size", "of the data", "entries"], entries, "index_type", ["file_size", "row_count"],
    (type, some, size, rows) => [type.toLowerCase().replaceAll("_", " "), number(some), bytes(size), percent(size, data), number(rows)]);
}
