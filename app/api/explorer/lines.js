// Reads NDJSON while it arrives. Lines are kept as bytes, which take a fraction of the room of their objects.

const utf8 = new TextDecoder();
const LINE_END = 10;

export const parse = (line) => JSON.parse(utf8.decode(line));

/** Yields the lines of a response's body as bytes, some at a time. */
export async function* readLines(body) {
  let begun = new Uint8Array();
  for (const reader = body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = [];
    let start = 0;
    for (let end = value.indexOf(LINE_END); end >= 0; end = value.indexOf(LINE_END, start)) {
      lines.push(joined(begun, value.subarray(start, end)));
      begun = begun.subarray(0, 0);
      start = end + 1;
    }
    begun = joined(begun, value.subarray(start));
    yield lines;
  }
}

function joined(first, second) {
  if (first.length === 0) return second;
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
