// Finds the known name that a misspelt one probably means, for error messages: the one with the fewest letters to
// insert, delete or replace, if they are few.
// Contract: neighbours#strict-requests.

/** Longer names are not compared: the cost grows with the product of the lengths. */
const LENGTH_MAX = 40;

/** The known name nearest to a misspelt one; undefined when none is near. */
export function nearestName(given: string, known: readonly string[]): string | undefined {
  if (given.length > LENGTH_MAX) return undefined;
  const plain = plainName(given);
  let nearest: string | undefined;
  let least = Math.min(2, Math.floor(plain.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(plain, plainName(name));
    if (distance < least) [nearest, least] = [name, distance];
  }
  return nearest;
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/[-_. ]/g, '');
}

/** The number of letters to insert, delete or replace. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j++) {
      const kept = (row[j] as number) + (letter === to[j] ? 0 : 1);
      next.push(Math.min(kept, (row[j + 1] as number) + 1, (next[j] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
