// The versions of a table: a line of its snapshots with tags above it, a choice of branches, and what changed.

import { ask, askPages, segment, tablePath } from "./api.js";
import { bytes, fill, find, h, moment, muted, number, plural, shortName, table } from "./dom.js";
import { versionOf } from "./plan.js";

const MOST = 400;
const MOST_CHANGES = 20;

export class Versions {
  constructor(go) {
    this.go = go;
  }

  async load(state, signal) {
    const base = tablePath(state);
    const query = state.branch ? `?branch=${segment(state.branch)}` : "";
    const [snapshots, tags, { branches }] = await Promise.all([
      askPages(`${base}/snapshots${query}`, "snapshots", { signal }),
      askPages(`${base}/tags${query}`, "tags", { signal }),
      ask(`${base}/branches`, { signal }),
    ]);
    this.newest = snapshots.at(-1)?.id;
    this.branches = branches.map(({ name }) => name);
    this.tags = tags;
    // A tag outlives its snapshot.
    const known = new Map([...this.tags.map(({ snapshot }) => [snapshot.id, { ...snapshot, isGone: true }]), ...snapshots.map((each) => [each.id, each])]);
    this.line = [...known.values()].sort((one, other) => one.id - other.id);
  }

  show(state) {
    const current = this.tags.find(({ name }) => name === state.tag)?.snapshot.id ?? (Number(state.snapshot) || this.newest);
    const dot = ({ id, isGone, commit_kind: kind, time_millis: time, total_record_count: rows }) => {
      const names = this.tags.filter(({ snapshot }) => snapshot.id === id).map(({ name }) => name);
      const about = [`snapshot ${id}`, kind, moment(time), plural(rows ?? 0, "row"), ...names.map((name) => `tag ${name}`)].join(", ");
      const version = isGone ? { tag: names[0], snapshot: "" } : { tag: "", snapshot: id === this.newest ? "" : `${id}` };
      return h("button", { className: `dot ${kind.toLowerCase()}`, title: about, ariaLabel: about, ariaPressed: `${id === current}`, onclick: () => this.go(version) },
        h("small", {}, names.join(" ")), h("span", {}, `${id}`));
    };
    const older = this.line.length - MOST;
    const line = h("div", { className: "line", role: "group", ariaLabel: "Snapshots" }, older > 0 && muted(`${older} older`), this.line.slice(-MOST).map(dot));
    const names = ["", ...this.branches];
    const before = this.line.findLast(({ id, isGone }) => id < current && !isGone)?.id;
    fill(find("changes"));
    fill(find("versions"),
      names.length > 1 && h("select", { ariaLabel: "Branch", onchange: ({ target }) => this.go({ branch: target.value, snapshot: "", tag: "" }) },
        names.map((name) => h("option", { value: name, selected: name === state.branch }, name || "main branch"))),
      this.line.length ? line : muted("no snapshot yet"),
      before && h("button", { className: "quiet", title: `Files that came and went since snapshot ${before}`, onclick: () => showChanges({ ...state, snapshot: current }, before) }, "Changes"));
    line.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
}

async function showChanges(state, before) {
  const place = h("div", {}, muted("reading…"));
  fill(find("changes"), place);
  try {
    const { added, removed } = await ask(`${tablePath(state)}/changes`, { body: { ...versionOf(state), from_snapshot_id: before } });
    const all = [...added.map((file) => ["came", file]), ...removed.map((file) => ["went", file])];
    fill(place, muted(`Since snapshot ${before}, ${plural(added.length, "file")} came and ${number(removed.length)} went.`),
      all.length > 0 && table(["", "file", "rows", "deleted", "size"], all.slice(0, MOST_CHANGES).map(([what, { file_name: name, row_count: rows, deletion, file_size: size }]) =>
        [what, shortName(name), number(rows), number(deletion?.cardinality ?? 0), bytes(size)])));
  } catch (problem) {
    fill(place, muted(problem.message));
  }
}
