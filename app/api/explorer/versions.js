// The versions of a table: a line of its snapshots with tags above it, and a choice of branches.

import { ask, askPages, segment, tablePath } from "./api.js";
import { fill, find, h, moment, muted, plural } from "./dom.js";

const MOST = 400;

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
    fill(find("versions"),
      names.length > 1 && h("select", { ariaLabel: "Branch", onchange: ({ target }) => this.go({ branch: target.value, snapshot: "", tag: "" }) },
        names.map((name) => h("option", { value: name, selected: name === state.branch }, name || "main branch"))),
      this.line.length ? line : muted("no snapshot yet"));
    line.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
}
