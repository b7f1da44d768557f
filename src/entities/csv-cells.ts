// How a field's values are written to CSV cells and read from them. Lists and JSON are JSON text. A text
// that a spreadsheet would run as a formula gets a leading apostrophe, which reading removes, as it does
// for the empty text: cells read back equal. Numbers stay unchanged, negative ones too. A cell that does not
// fit its type is passed on as text, for the field's parser to reject.

export interface Cell {
  write(value: unknown): string;
  /** The value of a cell that is not empty. */
  read(cell: string): unknown;
}

/** Text that spreadsheets take for a formula, after any apostrophes; or text of nothing but apostrophes. */
const FORMULA = /^'*([=+\-@\t\r\n＝＋－＠]|$)/;
const GUARDED = /^'+([=+\-@\t\r\n＝＋－＠]|$)/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

export const PLAIN_CELL: Cell = { write: String, read: (cell) => cell };

export const FREE_TEXT_CELL: Cell = {
  write: (value) => (FORMULA.test(String(value)) ? `'${value}` : String(value)),
  read: (cell) => (GUARDED.test(cell) ? cell.slice(1) : cell),
};

export const NUMBER_CELL: Cell = { write: String, read: (cell) => (NUMBER.test(cell) ? Number(cell) : cell) };

export const BOOLEAN_CELL: Cell = {
  write: String,
  read: (cell) => ({ true: true, false: false })[cell.toLowerCase()] ?? cell,
};

export const JSON_CELL: Cell = {
  write: (value) => JSON.stringify(value),
  read: (cell) => {
    try {
      return JSON.parse(cell);
    } catch {
      return cell;
    }
  },
};
