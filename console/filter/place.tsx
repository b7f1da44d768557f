// Where a condition is wrong: its text around the place that the parser's message names, the word there marked.
const AROUND = 24;

export function Place({ text, problem }: { text: string; problem: string }) {
  const at = placeOf(text, problem);
  if (at === null) return null;
  const wrong = /^\S*/.exec(text.slice(at))?.[0] ?? '';
  const from = Math.max(0, at - AROUND);
  return (
    <code className="expression-place">
      {from > 0 && '…'}
      {text.slice(from, at)}
      <mark>{wrong === '' ? '␣' : wrong}</mark>
      {text.slice(at + wrong.length, at + wrong.length + AROUND)}
      {at + wrong.length + AROUND < text.length && '…'}
    </code>
  );
}

/** "... at character 9", or the first place of the name that the message quotes. */
function placeOf(text: string, problem: string): number | null {
  const character = /at character (\d+)/.exec(problem)?.[1];
  if (character !== undefined) return Math.min(text.length, Number(character) - 1);
  const name = /"([^"]+)"/.exec(problem)?.[1];
  const found = name === undefined ? -1 : text.indexOf(name);
  return found < 0 ? null : found;
}
