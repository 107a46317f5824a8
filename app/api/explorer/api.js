// The HTTP API, and the token that this tab was given: sessionStorage is the tab's own and ends with it.

const ROOT = new URL("../", import.meta.url);
const TOKEN = "paimon-index-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (secret) => (secret ? sessionStorage.setItem(TOKEN, secret) : sessionStorage.removeItem(TOKEN)),
};

/** A problem answer (RFC 9457), or with status 0 a connection that failed. */
export class Problem extends Error {
  constructor(status, members) {
    super(members.detail ?? members.title ?? `the service answered ${status}`);
    this.status = status;
    this.position = members.position;
  }
}

export const segment = encodeURIComponent;
export const url = (path) => new URL(path, ROOT).href;
export const tablePath = ({ warehouse, database, table }) =>
  `v1/${segment(warehouse)}/databases/${segment(database)}/tables/${segment(table)}`;

/** The response to a request, a POST if it has a body. */
export async function send(path, { body, accept, signal } = {}) {
  const headers = { Accept: accept ?? "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url(path), {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "the service cannot be reached" });
  }
  if (response.ok) return response;
  const problem = new Problem(response.status, await response.json().catch(() => ({})));
  if (problem.status === 401) dispatchEvent(new CustomEvent("token-needed", { detail: problem.message }));
  throw problem;
}

export async function ask(path, options) {
  return (await send(path, options)).json();
}

/** The entries of a listing that comes in pages, up to about `most`. */
export async function askPages(path, member, { most = 2000, signal } = {}) {
  const found = [];
  let next = null;
  do {
    const query = next === null ? "" : `${path.includes("?") ? "&" : "?"}page_token=${segment(next)}`;
    const page = await ask(path + query, { signal });
    found.push(...page[member]);
    next = page.next_page_token;
  } while (next !== null && found.length < most);
  return found;
}
