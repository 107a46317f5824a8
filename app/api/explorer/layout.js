// Where cells lie: rows from top to bottom, each from left to right, so that neighbours in the order of partitions
// stay neighbours in the picture. Areas are as large as weights; cells are about as wide as high.

const LARGEST_CELL = 104;
const LABEL = 15;
/** A cell is at least this part of the mean one, so that small files can be seen. */
const LEAST = 1 / 20;

/** Writes x, y, width and height of each weight from `start` to `stop` into `cells`, inside of a rectangle. */
function fit(weights, start, stop, [left, top, width, height], cells) {
  let total = 0;
  let isEven = true;
  for (let at = start; at < stop; at += 1) {
    total += weights[at];
    isEven &&= weights[at] === weights[start];
  }
  if (total <= 0 || width <= 0 || height <= 0) return;
  if (isEven) grid(start, stop, left, top, width, height, cells);
  else strips(weights, total, start, stop, left, top, width, height, cells);
}

/** Cells of one size; the last row may have room left. */
function grid(start, stop, left, top, width, height, cells) {
  const count = stop - start;
  let columns = Math.max(1, Math.round(Math.sqrt((count * width) / height)));
  // One more column may save a row that is nearly empty.
  if (Math.ceil(count / (columns + 1)) < Math.ceil(count / columns)) columns += 1;
  columns = Math.min(columns, count);
  const [wide, high] = [width / columns, height / Math.ceil(count / columns)];
  for (let at = 0; at < count; at += 1) {
    cells.set([left + (at % columns) * wide, top + Math.floor(at / columns) * high, wide, high], 4 * (start + at));
  }
}

/** Rows that end where one more cell would make their mean cell less square. */
function strips(weights, total, start, stop, left, top, width, height, cells) {
  for (let first = start; first < stop; ) {
    let [last, sum, best] = [first, 0, Infinity];
    for (; last < stop; last += 1) {
      const more = sum + weights[last];
      const shape = Math.abs(Math.log((more * height * (last - first + 1)) / (total * width)));
      if (shape > best) break;
      [best, sum] = [shape, more];
    }
    const high = (sum / total) * height;
    for (let [at, x] = [first, left]; at < last; at += 1) {
      const wide = (weights[at] / sum) * width;
      cells.set([x, top, wide, high], 4 * at);
      x += wide;
    }
    top += high;
    first = last;
  }
}

/**
 * Places the files of a plan, in its order. `measure` is what areas stand for: files, size or rows; `only` is the
 * group that is shown alone, or null; `pixel` is how many pixels one of the stylesheet has.
 */
export function place({ order, group, groups, ...plan }, measure, only, width, height, pixel) {
  const values = plan[measure];
  const mean = values ? values.reduce((sum, value) => sum + value, 0) / order.length : 0;
  const weights = Float64Array.from(order, (file) => (mean ? Math.max(values[file], mean * LEAST) : 1));
  const starts = new Uint32Array(groups.length + 1);
  const sums = new Float64Array(groups.length);
  let shown = 0;
  order.forEach((file, at) => {
    starts[group[file] + 1] = at + 1;
    if (only !== null && only !== group[file]) return;
    sums[group[file]] += weights[at];
    shown += 1;
  });
  // Few files leave room below rather than become walls.
  const largest = LARGEST_CELL * pixel;
  height = Math.min(height, Math.ceil((shown * largest) / width) * largest);
  const frames = new Float32Array(4 * groups.length);
  fit(sums, only ?? 0, only === null ? groups.length : only + 1, [0, 0, width, height], frames);
  const cells = new Float32Array(4 * order.length);
  const labelOf = (number) => {
    const [x, y, wide, high] = frames.subarray(4 * number, 4 * number + 4);
    return [x, y, wide, groups[number].label && wide >= 52 * pixel && high >= 34 * pixel ? LABEL * pixel : 0];
  };
  groups.forEach((_, number) => {
    const [x, y, wide, high] = frames.subarray(4 * number, 4 * number + 4);
    const top = labelOf(number)[3];
    const gap = Math.min(wide, high) > 14 * pixel ? 1.5 * pixel : pixel / 2;
    fit(weights, starts[number], starts[number + 1], [x + gap, y + top + gap, wide - 2 * gap, high - top - 2 * gap], cells);
  });
  return { cells, labelOf };
}
