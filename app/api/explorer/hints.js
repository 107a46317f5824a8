// Filters to begin with, and the columns that a word may become, each with one of its values.

import { ask, tablePath } from "./api.js";
import { fill, find, h } from "./dom.js";
import { versionOf } from "./plan.js";

const BARE = /^(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL|BOOLEAN)\b/;
const QUOTED = /^(DATE|TIMESTAMP|CHAR|VARCHAR|STRING)\b/;
/** Functions in one request, and files whose indexes may be asked for examples. */
const MOST = 20;
const MOST_FILES = 1000;
const SHOWN = 8;

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
    const { groups } = await ask(`${tablePath(state)}/aggregate`, { body: { ...versionOf(state), aggregates }, signal });
    // Bounds do where values are not exact.
    const told = (groups[0]?.values ?? []).map(({ function: name, value, lower, upper }) => value ?? (name === "min" ? lower : upper));
    asked.forEach(({ name }, at) => told[at] != null && this.values.set(name, told[at]));
    const equal = (field) => field && `${named(field.name)} = ${literal(this.values.get(field.name), field)}`;
    const first = (some) => equal(some.find(({ name }) => this.values.has(name)));
    const [least, most] = [told[0], told.at(-1)].map(Number);
    const between = ranged && most > least && `${named(ranged.name)} < ${Math.ceil(least + (most - least) / 10)}`;
    this.examples = [...new Set([between, first(valued), first(parts), first(simple)].filter(Boolean))].slice(0, 3);
    this.show();
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
