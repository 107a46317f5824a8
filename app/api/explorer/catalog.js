// Warehouse, database and table: two choices, and a list with a search field.

import { ask, segment } from "./api.js";
import { fill, find, h, muted, plural } from "./dom.js";

const MOST = 500;

export class Catalog {
  constructor(go) {
    this.go = go;
    this.tables = [];
    this.place = {};
    const onkeydown = (event) => this.#key(event);
    this.warehouses = h("select", { onchange: () => go({ warehouse: this.warehouses.value, database: "", table: "" }) });
    this.databases = h("select", { onchange: () => go({ warehouse: this.warehouses.value, database: this.databases.value, table: "" }) });
    this.search = h("input", { type: "search", placeholder: "search tables", ariaLabel: "Search tables", oninput: () => this.#list(), onkeydown });
    this.list = h("ul", { onkeydown });
    this.count = muted();
    fill(find("catalog"), h("label", {}, "Warehouse", this.warehouses), h("label", {}, "Database", this.databases), this.search, this.list, this.count);
  }

  /** Lists what there is; gives the warehouse and the database, the first ones where the state names none. */
  async show(state, signal) {
    const { warehouses } = await ask("v1/config", { signal });
    const warehouse = state.warehouse || warehouses[0] || "";
    choose(this.warehouses, warehouses, warehouse);
    const path = `v1/${segment(warehouse)}/databases`;
    const { databases } = warehouse ? await ask(path, { signal }) : { databases: [] };
    const database = state.database || databases[0] || "";
    choose(this.databases, databases, database);
    this.tables = database ? (await ask(`${path}/${segment(database)}/tables`, { signal })).tables : [];
    return { warehouse, database };
  }

  /** Marks the table that is shown. */
  mark(state) {
    this.place = state;
    this.#list();
  }

  #list() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.tables.filter((name) => name.toLowerCase().includes(wanted));
    const { warehouse, database } = this.place;
    fill(this.list, found.slice(0, MOST).map((table) => h("li", {}, h("button", {
      ariaCurrent: table === this.place.table ? "page" : null,
      onclick: () => this.go({ warehouse, database, table }),
    }, table))));
    this.count.textContent = (wanted ? `${found.length} of ` : "") + plural(this.tables.length, "table") + (found.length > MOST ? `, ${MOST} shown` : "");
  }

  #key(event) {
    const entries = [...this.list.querySelectorAll("button")];
    const at = entries.indexOf(document.activeElement);
    if (event.key === "ArrowDown") entries[Math.min(at + 1, entries.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? entries[at - 1] : this.search).focus();
    else if (event.key === "Enter" && at < 0) entries[0]?.click();
    else return;
    event.preventDefault();
  }
}

function choose(select, names, name) {
  const all = names.includes(name) || !name ? names : [name, ...names];
  fill(select, all.map((each) => h("option", { value: each, selected: each === name }, each)));
}
