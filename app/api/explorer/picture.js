// The plan as a picture: a canvas of pixels that are written at once, and one above it for the frame of the file that
// is pointed at. A second array has the file of each pixel.

import { DECISIONS, isKept, KEPT } from "./decisions.js";
import { place } from "./layout.js";

const NOTHING = 0xffffffff;
const SMALLEST_WITH_GAP = 4;
const SMALLEST_WITH_ROWS = 16;
const FADED = 0.82;

const ratio = () => devicePixelRatio || 1;

/** A colour of the stylesheet as a pixel: alpha, blue, green, red. */
function pixelOf(styles, name) {
  const [red, green, blue] = styles.getPropertyValue(`--${name}`).match(/[0-9a-f]{2}/gi).map((text) => parseInt(text, 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function mix(one, other, share) {
  const part = (shift) => Math.round(((one >>> shift) & 255) * (1 - share) + ((other >>> shift) & 255) * share) << shift;
  return (0xff000000 | part(16) | part(8) | part(0)) >>> 0;
}

export class Picture {
  plan = null;
  measure = "files";
  only = null;
  highlighted = null;
  pointed = null;
  picked = null;

  /** `frame` lies above `cells` and takes keyboard and pointer. The callbacks get the file or group, or null. */
  constructor(cells, frame, { onPoint, onPick, onGroup }) {
    Object.assign(this, { cells, frame, onPoint, onPick, onGroup });
    frame.addEventListener("pointermove", (event) => this.#point(this.#fileAt(...this.#spot(event))));
    frame.addEventListener("pointerleave", () => this.#point(this.picked));
    frame.addEventListener("click", (event) => this.#click(...this.#spot(event)));
    frame.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Changes what is shown: `plan`, `measure`, `only`, `highlighted`, `picked`. */
  show(members) {
    Object.assign(this, members);
    if (members.plan !== undefined) this.pointed = null;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.frame.clientWidth * ratio());
    const height = Math.floor(this.frame.clientHeight * ratio());
    if (width === 0 || height === 0) return;
    for (const canvas of [this.cells, this.frame]) Object.assign(canvas, { width, height });
    if (this.plan === null) return;
    const context = this.cells.getContext("2d");
    const styles = getComputedStyle(this.cells);
    this.places = place(this.plan, this.measure, this.only, width, height, ratio());
    this.at = new Uint32Array(this.plan.count);
    this.plan.order.forEach((file, at) => (this.at[file] = at));
    const image = context.createImageData(width, height);
    this.#paint(new Uint32Array(image.data.buffer), width, height, styles);
    context.putImageData(image, 0, 0);
    this.#label(context, styles);
    this.#mark();
  }

  #paint(pixels, width, height, styles) {
    const { plan, highlighted } = this;
    const ground = pixelOf(styles, "ground");
    const shade = (name, code) => mix(pixelOf(styles, name), ground, highlighted === null || highlighted === code ? 0 : FADED);
    const colours = DECISIONS.map(({ name }, code) => shade(name, code));
    const unread = shade("kept-rest", KEPT);
    const deleted = shade("deletion_vector", KEPT);
    pixels.fill(ground);
    this.files = new Uint32Array(width * height).fill(NOTHING);
    for (let at = 0; at < plan.count; at += 1) {
      const [x, y, wide, high] = this.#cell(at);
      if (wide <= 0) continue;
      const file = plan.order[at];
      const code = plan.decision[file];
      const [left, top] = [Math.round(x), Math.round(y)];
      let right = Math.min(width, Math.max(left + 1, Math.round(x + wide)));
      let bottom = Math.min(height, Math.max(top + 1, Math.round(y + high)));
      for (let row = top; row < bottom; row += 1) this.files.fill(file, row * width + left, row * width + right);
      if (Math.min(right - left, bottom - top) >= SMALLEST_WITH_GAP) {
        right -= 1;
        bottom -= 1;
      }
      // Rows that are read fill the cell of a kept file from below; deleted ones hang from above.
      const hasRows = isKept(code) && plan.rows[file] > 0 && Math.min(right - left, bottom - top) >= SMALLEST_WITH_ROWS;
      const share = (rows) => (rows > 0 ? Math.max(2, Math.round(((bottom - top - 2) * rows) / plan.rows[file])) : 0);
      const read = hasRows ? bottom - 1 - share(plan.selected[file]) : top;
      const gone = hasRows ? Math.min(read, top + 1 + share(plan.deleted[file])) : top;
      for (let row = top; row < bottom; row += 1) {
        pixels.fill(colours[code], row * width + left, row * width + right);
        if (row > top && row < read) pixels.fill(row < gone ? deleted : unread, row * width + left + 1, row * width + right - 1);
      }
    }
  }

  #cell(at) {
    return this.places.cells.subarray(4 * at, 4 * at + 4);
  }

  #label(context, styles) {
    const pixel = ratio();
    context.font = `${11 * pixel}px ${styles.fontFamily}`;
    context.fillStyle = styles.getPropertyValue("--muted");
    context.textBaseline = "middle";
    this.plan.groups.forEach(({ label }, group) => {
      const [x, y, wide, high] = this.places.labelOf(group);
      if (high === 0) return;
      let text = label;
      // The end of a partition's name tells more than its beginning.
      for (let cut = 2; context.measureText(text).width > wide - 5 * pixel && cut < label.length; cut += 1) text = `…${label.slice(cut)}`;
      context.fillText(text, x + 2 * pixel, y + high / 2 + pixel);
    });
  }

  /** Draws the frames of the file that was picked and of the one that is pointed at. */
  #mark() {
    const context = this.frame.getContext("2d");
    context.clearRect(0, 0, this.frame.width, this.frame.height);
    const styles = getComputedStyle(this.frame);
    for (const file of [this.picked, this.pointed]) {
      if (file === null || this.plan === null) continue;
      const [x, y, wide, high] = this.#cell(this.at[file]);
      if (wide <= 0) continue;
      const around = 1.5 * ratio();
      for (const [line, colour] of [[4, "--surface"], [2, "--ink"]]) {
        context.lineWidth = line * ratio();
        context.strokeStyle = styles.getPropertyValue(colour);
        context.strokeRect(x - around, y - around, wide + around, high + around);
      }
    }
  }

  #spot(event) {
    return [Math.floor(event.offsetX * ratio()), Math.floor(event.offsetY * ratio())];
  }

  #fileAt(x, y) {
    const isInside = this.plan !== null && x >= 0 && y >= 0 && x < this.cells.width && y < this.cells.height;
    const file = isInside ? this.files[y * this.cells.width + x] : NOTHING;
    return file === NOTHING ? null : file;
  }

  #point(file) {
    if (file === this.pointed) return;
    this.pointed = file;
    this.#mark();
    this.onPoint(file);
  }

  #click(x, y) {
    const file = this.#fileAt(x, y);
    if (file !== null) {
      this.#point(file);
      this.onPick(file);
    } else if (this.plan !== null) {
      const group = this.plan.groups.findIndex((_, number) => {
        const [left, top, wide, high] = this.places.labelOf(number);
        return x >= left && x < left + wide && y >= top && y < top + high;
      });
      if (group >= 0) this.onGroup(group);
    }
  }

  #key(event) {
    if (this.plan === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const any = () => true;
    const kept = (file) => isKept(this.plan.decision[file]);
    const start = this.pointed === null ? -1 : this.at[this.pointed];
    const actions = {
      ArrowRight: () => this.#step(start, 1, any),
      ArrowLeft: () => this.#step(start, -1, any),
      ArrowDown: () => this.#across(start, 1),
      ArrowUp: () => this.#across(start, -1),
      n: () => this.#step(start, 1, kept),
      p: () => this.#step(start, -1, kept),
      Home: () => this.#step(-1, 1, any),
      End: () => this.#step(this.plan.count, -1, any),
      Enter: () => this.pointed !== null && this.onPick(this.pointed),
      z: () => this.pointed !== null && this.onGroup(this.plan.group[this.pointed]),
      Escape: () => this.onGroup(null),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  }

  #step(at, by, isWanted) {
    do at += by;
    while (at >= 0 && at < this.plan.count && !(this.#cell(at)[2] > 0 && isWanted(this.plan.order[at])));
    if (at >= 0 && at < this.plan.count) this.#point(this.plan.order[at]);
  }

  #across(at, by) {
    if (at < 0) return this.#step(-1, 1, () => true);
    const [x, y, wide, high] = this.#cell(at);
    for (let row = Math.floor(y + high / 2); row >= 0 && row < this.cells.height; row += by) {
      const file = this.#fileAt(Math.floor(x + wide / 2), row);
      if (file !== null && file !== this.pointed) return this.#point(file);
    }
    return undefined;
  }
}
