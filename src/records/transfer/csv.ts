// CSV after RFC 4180: cells from a record's text, and records' values to and from cells. An empty cell
// is no value; lists and JSON are JSON text. A text that a spreadsheet would run as a formula gets a
// leading apostrophe, which reading takes away again, as it does for the empty text: written cells
// read back equal. Numbers stay as they are, negative ones too.
/** The cells of one record; null when its quotes are not as RFC 4180 has them. */
export function cellsOf(text: string): string[] | null {
  if (!text.includes('"')) return text.split(',');
  const cells: string[] = [];
  for (let at = 0; ; at++) {
    const cell = text[at] === '"' ? quotedCell(text, at + 1) : plainCell(text, at);
    if (cell === null) return null;
    cells.push(cell.value);
    at = cell.end;
    if (at === text.length) return cells;
    if (text[at] !== ',') return null;
  }
}

function plainCell(text: string, start: number): { value: string; end: number } | null {
  const comma = text.indexOf(',', start);
  const end = comma < 0 ? text.length : comma;
  const value = text.slice(start, end);
  return value.includes('"') ? null : { value, end };
}

/** `start` is behind the opening quote; the end is behind the closing one. */
function quotedCell(text: string, start: number): { value: string; end: number } | null {
  let value = '';
  for (let from = start; ; ) {
    const quote = text.indexOf('"', from);
    if (quote < 0) return null;
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') return { value, end: quote + 1 };
    value += '"';
    from = quote + 2;
  }
}

const NEEDS_QUOTES = /[",\r\n]/;

/** A record's line, with its line feed. */
export function csvLine(cells: readonly string[]): string {
  const written = cells.map((cell) => (NEEDS_QUOTES.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  // A single empty cell must not look like an empty line, which readers skip.
  return written.length === 1 && written[0] === '' ? '""\n' : `${written.join(',')}\n`;
}
