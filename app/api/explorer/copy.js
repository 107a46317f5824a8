// The question in other words: as a command line, and as SQL.

import { tablePath, token, url } from "./api.js";
import { h } from "./dom.js";
import { questionOf } from "./plan.js";

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
const literal = (text) => `'${text.replace(/['\\]/g, "\\$&")}'`;

/** The plan's request for a shell; the token is named by a variable and never written. */
export function asCurl(state) {
  const lines = [`curl -s ${shell(url(`${tablePath(state)}/plan`))}`];
  if (token.get()) lines.push('-H "Authorization: Bearer $SECRET"');
  lines.push(`-d ${shell(JSON.stringify({ ...questionOf(state), selection: "ranges" }))}`);
  return lines.join(" \\\n  ");
}

/** The query that the plan is for. */
export function asSql(state) {
  const branch = state.branch ? `$branch_${state.branch}` : "";
  const table = [state.warehouse, state.database, state.table + branch].map(quoted).join(".");
  const version = state.tag ? ` VERSION AS OF ${literal(state.tag)}` : state.snapshot ? ` VERSION AS OF ${state.snapshot}` : "";
  const where = state.filter.trim() ? `\nWHERE ${state.filter.trim()}` : "";
  return `SELECT *\nFROM ${table}${version}${where};`;
}

/** Copies a text; without leave to do so, shows it selected, to be copied. */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { readOnly: true, value: text, rows: 6, "aria-label": "To be copied" });
    const dialog = h("dialog", { onclose: () => dialog.remove() },
      h("form", { method: "dialog" }, area, h("button", {}, "Close")));
    document.body.append(dialog);
    dialog.showModal();
    area.select();
    return;
  }
  const label = button.textContent;
  Object.assign(button, { textContent: "Copied", disabled: true });
  setTimeout(() => Object.assign(button, { textContent: label, disabled: false }), 1200);
}
