// Elements, numbers and times as the page writes them. Nothing parses markup: the page's policy forbids it.

/** An element: members named `on…` are listeners, members that the element does not have are attributes. */
export function h(name, members = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(members)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  return append(element, children);
}

function append(element, children) {
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (id) => document.getElementById(id);

/** Puts children in the place of those that an element has. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

export const muted = (...children) => h("p", { className: "muted" }, children);

/** A table that scrolls by itself where it is too wide. */
export function table(names, rows) {
  const head = names.length ? h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))) : null;
  const body = rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))));
  return h("div", { className: "scroll" }, h("table", {}, head, h("tbody", {}, body)));
}

export function swatch(name) {
  const element = h("i");
  element.style.background = `var(--${name})`;
  return element;
}

const whole = new Intl.NumberFormat("en");
export const number = (value) => whole.format(value);
export const plural = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;

export function bytes(value) {
  let unit = 0;
  for (; value >= 999.5 && unit < 5; unit += 1) value /= 1000;
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : value.toPrecision(value >= 9.95 ? 3 : 2)} ${["B", "KB", "MB", "GB", "TB", "PB"][unit]}`;
}

/** A share, which is 0 % only for nothing and 100 % only for all; ten times and more as such. */
export function percent(part, all) {
  if (!all || !part) return "0 %";
  const share = (100 * part) / all;
  if (share < 0.1) return "< 0.1 %";
  if (share > 99.9 && part < all) return "> 99.9 %";
  if (share >= 1000) return `${number(Math.round(share / 100))} times`;
  return `${share < 10 ? Number(share.toFixed(1)) : Math.round(share)} %`;
}

export const moment = (milliseconds) => `${new Date(milliseconds).toISOString().replace("T", " ").slice(0, 16)} UTC`;

/** The name of a file without most of its UUID. */
export const shortName = (name) => name.replace(/([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f-]{22}/, "$1…");
