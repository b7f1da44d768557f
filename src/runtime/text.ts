// Detects strings that Postgres cannot store before they reach it; also the type of a parsed JSON object.
// Postgres rejects NUL characters and unpaired surrogates.
// Contract: decisions#responses.

/** Why Postgres cannot store a text, or undefined. */
export function textProblem(text: string): string | undefined {
  if (text.includes('\0')) return 'contains a NUL character';
  if (!text.isWellFormed()) return 'contains half a surrogate pair';
  return undefined;
}

/** A parsed JSON object. */
export type JsonObject = Record<string, unknown>;
