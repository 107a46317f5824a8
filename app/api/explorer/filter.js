// The filter's text, and the parser's message at the place in it that the message is about.

import { fill, find, h } from "./dom.js";

const PAUSE_MS = 250;

export class Filter {
  /** `onText` is called with the text when typing pauses, and at once with `true` on Enter. */
  constructor(onText) {
    this.text = find("filter");
    let timer = 0;
    const call = (isEntered) => {
      clearTimeout(timer);
      onText({ filter: this.text.value }, isEntered);
    };
    const typed = () => {
      this.clear();
      this.#grow();
      clearTimeout(timer);
      timer = setTimeout(call, PAUSE_MS, false);
    };
    this.text.addEventListener("input", typed);
    this.text.addEventListener("scroll", () => (find("marks").scrollTop = this.text.scrollTop));
    this.text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      call(true);
    });
    find("question").addEventListener("submit", (event) => {
      event.preventDefault();
      call(true);
    });
  }

  show({ filter }) {
    // Setting what is there already would move the caret.
    if (this.text.value !== filter) this.text.value = filter;
    this.#grow();
  }

  /** Shows a problem; its position counts characters, of which JavaScript's strings may have two for one. */
  complain(problem) {
    const characters = Array.from(this.text.value);
    const isPlaced = Number.isInteger(problem.position) && characters.length > 0;
    const at = Math.min(problem.position ?? 0, characters.length);
    const long = /^[\p{L}\p{N}_]+/u.exec(characters.slice(at).join(""))?.[0];
    const end = at + Math.max(1, Array.from(long ?? "").length);
    const part = (start, stop) => characters.slice(start, stop).join("");
    fill(find("marks"), isPlaced ? [part(0, at), h("mark", {}, part(at, end) || " "), part(end)] : []);
    fill(find("message"), isPlaced ? h("span", { className: "at" }, `character ${at + 1}`) : null, problem.message);
    find("message").className = "bad";
    this.text.setAttribute("aria-invalid", "true");
  }

  say(...children) {
    this.clear();
    fill(find("message"), children);
  }

  clear() {
    fill(find("marks"));
    fill(find("message"));
    find("message").className = "";
    this.text.removeAttribute("aria-invalid");
  }

  #grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 120)}px`;
  }
}
