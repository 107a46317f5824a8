// How much is left to read, as bars in files, rows and bytes, and the legend that counts what decided.

import { DECISIONS, isKept } from "./decisions.js";
import { bytes, fill, find, h, number, percent, swatch } from "./dom.js";

/** Draws the bars, each split by what decided. Of kept files, rows that are not selected are a part of their own. */
export function showFunnel(totals) {
  const measure = (name, unit, write, left) => {
    const parts = totals.flatMap((total, code) => {
      const part = isKept(code) ? total[left] : total[name];
      return [[DECISIONS[code].name, DECISIONS[code].label, part], ["kept-rest", "not read of kept files", total[name] - part]];
    });
    const sum = (wanted) => parts.reduce((all, [, , part], at) => all + (wanted(at) ? part : 0), 0);
    const all = sum(() => true);
    const kept = sum((at) => at % 2 === 0 && isKept(at / 2));
    return h("div", { className: "measure" },
      h("p", {}, h("strong", {}, write(kept)), ` of ${write(all)}${unit}`),
      h("p", {}, percent(kept, all)),
      h("div", { className: "stack", role: "img", ariaLabel: `${write(kept)} of ${write(all)} ${name} are left to read` },
        parts.filter(([, , part]) => part > 0).map(([colour, title, part]) => {
          const element = Object.assign(swatch(colour), { title });
          element.style.flexGrow = part / all;
          return element;
        })));
  };
  fill(find("funnel"),
    measure("files", " files", number, "files"),
    measure("rows", " rows", number, "selected"),
    measure("bytes", "", bytes, "bytes"));
}

/** Draws the legend. `onHighlight` gets a code or null while an entry is pointed at, and with `true` when it is pressed. */
export function showLegend(totals, pressed, onHighlight) {
  const hover = (code) => pressed === null && onHighlight(code, false);
  fill(find("legend"), DECISIONS.map(({ name, label, meaning }, code) => totals[code].files > 0 && h("button", {
    className: "key",
    title: meaning,
    ariaPressed: `${pressed === code}`,
    "data-decision": name,
    onpointerenter: () => hover(code),
    onpointerleave: () => hover(null),
    onclick: () => onHighlight(pressed === code ? null : code, true),
  }, swatch(name), label, h("b", {}, number(totals[code].files)))));
}
