// Filters to begin with, and the columns that a word may become, each with one of its values.

import { ask, tablePath } from "./api.js";
import { fill, find, h } from "./dom.js";
import { inspect } from "./file.js";
import { versionOf } from "./plan.js";

const BARE = /^(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL|BOOLEAN)\b/;
const QUOTED = /^(DATE|TIMESTAMP|CHAR|VARCHAR|STRING)\b/;
/** Functions in one request, and files whose indexes may be asked for examples. */
const MOST = 20;
const MOST_FILES = 1000;
const SHOWN = 8;
/** Global indexes that give examples, and bytes of a file of one, which the service reads whole. */
const MOST_INDEXES = 3;
const MOST_BYTES = 4e6;

const named = (column) => (/^(?!(and|false|not|null|or|true)$)[a-z_]\w*$/i.test(column) ? column : `\`${column.replaceAll("`", "``")}\``);
const literal = (value, { type }) => (BARE.test(type) && isFinite(value) ? `${value}` : `'${`${value}`.replaceAll(/[\\']/g, "\\$&")}'`);

export class Hints {
  constructor(text) {
    this.text = text;
    this.columns = [];
    this.examples = [];
    for (const event of ["input", "keyup", "click"]) text.addEventListener(event, () => this.show());
  }

  /** Learns the columns of a table and, as far as indexes tell, a value of each. */
  async load(description, state, files, signal) {
    if (this.of === description) return;
    const { fields, indexes, partition_keys: partition } = description;
    Object.assign(this, { of: description, columns: fields, examples: [], values: new Map() });
    this.show();
    if (files > MOST_FILES) return;
    const simple = fields.filter(({ type }) => BARE.test(type) || QUOTED.test(type));
    const indexed = (...kinds) => simple.filter(({ name }) => indexes.some(({ column, type }) => column === name && kinds.includes(type)));
    const ranged = indexed("range-bitmap", "bsi").find(({ type }) => BARE.test(type));
    const valued = indexed("bitmap", "bloom-filter");
    const parts = simple.filter(({ name }) => partition.includes(name));
    const asked = [...new Set([ranged, ...valued, ...parts, ...simple].filter(Boolean))].slice(0, MOST - 1);
    const aggregates = asked.map(({ name: column }) => ({ function: "min", column }));
    if (ranged) aggregates.push({ function: "max", column: ranged.name });
    if (!asked.length) return;
    const ends = this.#ends(description, simple, state, signal).catch(() => []);
    // The service counts no rows that lie in several files each.
    const counted = description.options["data-evolution.enabled"] !== "true";
    const { groups } = counted ? await ask(`${tablePath(state)}/aggregate`, { body: { ...versionOf(state), aggregates }, signal }) : { groups: [] };
    // Bounds do where values are not exact.
    const told = (groups[0]?.values ?? []).map(({ function: name, value, lower, upper }) => value ?? (name === "min" ? lower : upper));
    for (const { column, keys } of await ends) this.values.set(column, keys[0]);
    asked.forEach(({ name }, at) => told[at] != null && this.values.set(name, told[at]));
    const equal = (field) => field && `${named(field.name)} = ${literal(this.values.get(field.name), field)}`;
    const first = (some) => equal(some.find(({ name }) => this.values.has(name)));
    const listed = ({ column, keys }) => {
      const field = fields.find(({ name }) => name === column);
      return keys.length > 1 ? `${named(column)} IN (${keys.map((key) => literal(key, field)).join(", ")})` : equal(field);
    };
    const [least, most] = [told[0], told.at(-1)].map(Number);
    const between = ranged && most > least && `${named(ranged.name)} < ${Math.ceil(least + (most - least) / 10)}`;
    this.examples = [...new Set([between, ...(await ends).map(listed), first(valued), first(parts), first(simple)].filter(Boolean))].slice(0, 3);
    this.show();
  }

  /** The first key of each global index, and the last one of a BTree, as its first file has them. */
  async #ends({ global_indexes: indexes }, fields, state, signal) {
    if (!indexes?.length) return [];
    const { index_files: files } = await ask(`${tablePath(state)}/index-files?${new URLSearchParams(versionOf(state))}`, { signal });
    const found = await Promise.all(indexes.slice(0, MOST_INDEXES).map(async ({ column, type }) => {
      const file = files.find((each) => each.index_type === type && each.global_index?.column === column && each.file_size <= MOST_BYTES);
      const field = fields.find(({ name }) => name === column);
      if (!file || !field) return null;
      const block = (offset) => inspect(file.path, type, { [column]: field.type }, state, signal, { offset, limit: 1 });
      const first = await block(0);
      const last = type === "btree" && first.block_count > 1 ? await block(first.block_count - 1) : first;
      const keys = [(first.blocks?.[0] ?? first).min, type === "btree" ? (last.blocks?.[0] ?? last).max : null];
      return { column, keys: [...new Set(keys.filter((key) => key != null))] };
    }));
    return found.filter((each) => each?.keys.length);
  }

  show() {
    const { value, selectionStart: caret } = this.text;
    const word = /[a-z_]\w*$/i.exec(value.slice(0, caret))?.[0] ?? "";
    const button = (label, title, from, insert) => h("button", { type: "button", className: "quiet", title, onclick: () => this.#put(from, caret, insert) }, label);
    const starts = ({ name }) => name.toLowerCase().startsWith(word.toLowerCase()) && name !== word;
    const columns = word && document.activeElement === this.text ? this.columns.filter(starts).slice(0, SHOWN) : [];
    const sample = ({ name }) => (this.values.has(name) ? ` ${this.values.get(name)}`.slice(0, 24) : "");
    fill(find("hints"), value.trim()
      ? columns.map((field) => button([field.name, h("small", {}, sample(field))], field.type, caret - word.length, named(field.name)))
      : this.examples.map((text) => button(text, "an example of this table", 0, text)));
  }

  #put(from, to, inserted) {
    this.text.setRangeText(inserted, from, to, "end");
    this.text.focus();
    this.text.dispatchEvent(new Event("input"));
  }
}
