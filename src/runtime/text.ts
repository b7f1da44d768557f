// Which texts can be stored at all, and what a JSON object is to the rest. Postgres refuses a NUL
// and half a surrogate pair; they are named here before they get that far.
// Contract: decisions#answers.

/** Why a text cannot be stored, or undefined: Postgres holds neither NUL nor half a surrogate pair. */
export function textProblem(text: string): string | undefined {
  if (text.includes('\0')) return 'contains a NUL character';
  if (!text.isWellFormed()) return 'contains half a surrogate pair';
  return undefined;
}

/** A parsed JSON object. */
export type JsonObject = Record<string, unknown>;
