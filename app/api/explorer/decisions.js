// What can decide about a file, in the order of the legend. The stylesheet has the colour of each as `--NAME`.

const LIST = [
  ["kept", "may match", "nothing that was asked rules it out; its cell is filled to the share of rows that are read"],
  ["undecided", "undecided", "no index of it could be asked: see the warnings, or why its index was not"],
  ["merge", "kept to merge", "its rows merge with those of other files"],
  ["partition", "partition", "no row of its partition can match"],
  ["bucket", "bucket", "no key of its bucket can match"],
  ["key_statistics", "key bounds", "bounds of its keys rule it out"],
  ["statistics", "statistics", "bounds of its columns rule it out"],
  ["global_index", "global index", "no row that a global index tells of matches"],
  ["bloom-filter", "bloom filter", "a bloom filter does not have the value"],
  ["bitmap", "bitmap", "no row of a bitmap matches"],
  ["range-bitmap", "range bitmap", "no row of a range bitmap matches"],
  ["bsi", "bit-sliced index", "no row of a bit-sliced index matches"],
  ["file_index", "several indexes", "several kinds of indexes together leave no row"],
  ["deletion_vector", "deletion vector", "every matching row is deleted"],
  ["top_n", "top n", "other files have the first rows"],
  ["limit", "limit", "other files have enough rows"],
];

export const DECISIONS = LIST.map(([name, label, meaning]) => ({ name, label, meaning }));

const CODES = new Map(DECISIONS.map(({ name }, code) => [name, code]));
export const KEPT = CODES.get("kept");
const MERGE = CODES.get("merge");
const UNDECIDED = CODES.get("undecided");
/** Why files are kept of which something decided, or nothing was asked. */
const DECIDED = { matched: KEPT, no_filter: KEPT, merge_required: MERGE };
export const isKept = (code) => code <= MERGE;

/** The code of what decided: of a skipped file its step, or the kind of index that left no row, if only one did. */
export function codeOf({ skipped, decision_reason: reason, explain }) {
  if (!skipped) return DECIDED[reason] ?? UNDECIDED;
  const kinds = new Set(explain.filter(({ outcome, index }) => outcome === "skip" && index).map(({ index }) => index));
  return CODES.get(reason === "file_index" && kinds.size === 1 ? [...kinds][0] : reason) ?? CODES.get("file_index");
}

export const REASONS = {
  no_filter: "nothing was asked of its values",
  matched: "nothing that was asked rules it out",
  no_index: "no index of it can decide a part of the filter",
  not_decidable: "no part of the filter is one that an index could decide",
  not_asked: "the lists of the filter were too long to ask it",
  not_loaded: "its index was not loaded in time",
  index_unreadable: "its index is damaged or could not be read",
  merge_required: "its rows merge with those of other files",
};

const INDEX_NAMES = { "bloom-filter": "bloom filter", "range-bitmap": "range bitmap", bsi: "bit-sliced index" };
export const indexName = (type) => INDEX_NAMES[type] ?? type;
