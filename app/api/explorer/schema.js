// A table as its schema describes it: columns with their keys and indexes, and options.

import { indexName } from "./decisions.js";
import { bytes, fill, find, h, moment, plural, swatch, table } from "./dom.js";

const chip = (...children) => h("span", { className: "chip" }, children);

/** Shows a description; `sizes` has the mean bytes of an index by column and kind, as far as they are known. */
export function showSchema({ fields, indexes, options, comment, partition_keys: partition, primary_keys: primary }, sizes = new Map()) {
  const sizeOf = (column, type) => (sizes.has(`${column} ${type}`) ? ` ${bytes(sizes.get(`${column} ${type}`))}` : "");
  const chips = ({ name }) => [
    partition.includes(name) && chip("partition"),
    primary.includes(name) && chip("primary key"),
    indexes.filter(({ column }) => column === name || column.startsWith(`${name}[`)).map(({ column, type, options: own }) =>
      chip(swatch(type), indexName(type), column.slice(name.length), sizeOf(column, type), h("small", {}, Object.entries(own).map((each) => ` ${each.join(" ")}`)))),
  ];
  fill(find("schema"),
    comment && h("p", {}, comment),
    h("h2", {}, plural(fields.length, "column")),
    table(["column", "type", "keys, and indexes with their size in a file", ""], fields.map((field) => [h("b", {}, field.name), h("code", {}, field.type), chips(field), field.description])),
    h("h2", {}, plural(Object.keys(options).length, "option")),
    table([], Object.entries(options).sort().map(([name, value]) => [h("code", {}, name), value])));
}

/** One line about a table. */
export function factsOf({ snapshot, primary_keys: keys, merge_engine: engine, bucket_mode: mode, deletion_vectors: vectors }) {
  return [
    snapshot ? `snapshot ${snapshot.id} of ${moment(snapshot.time_millis)}` : "no snapshot yet",
    snapshot?.total_record_count != null && plural(snapshot.total_record_count, "row"),
    keys.length ? `primary key ${keys.join(", ")}` : "append table",
    engine,
    mode.replaceAll("_", " "),
    vectors && "deletion vectors",
  ].filter(Boolean).join(" · ");
}
