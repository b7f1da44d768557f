// Which operations have succeeded for which kind of credential: a fuzzer that sees only refusals proves nothing.
// What a kind may call is what its own API document describes.
// Paths are compared by the templates of the document without a credential.

/** Successes by `kind operation`. */
export type Successes = Record<string, number>;

export interface Coverage {
  /** How many pairs of an operation and a kind that may call it there are, and how many have succeeded. */
  allowed: number;
  reached: number;
  /** The others, by operation: the kinds without a success. */
  missing: Record<string, string[]>;
}

export function coverageOf(allowed: ReadonlySet<string>, successes: Successes): Coverage {
  const missing: Record<string, string[]> = {};
  let reached = 0;
  for (const pair of allowed) {
    const [kind = '', ...words] = pair.split(' ');
    const operation = words.join(' ');
    if ((successes[pair] ?? 0) > 0) reached += 1;
    else missing[operation] = [...(missing[operation] ?? []), kind];
  }
  return { allowed: allowed.size, reached, missing };
}

/** Finds the template of the generic document for a path or a template of a typed one. */
export function templates(paths: readonly string[]): (path: string) => string | undefined {
  const known = paths
    .map((path) => {
      const parts = path.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
      return { path, pattern: new RegExp(`^${parts.join('[^/]+')}$`), variables: parts.length - 1 };
    })
    .sort((a, b) => a.variables - b.variables);
  return (path) => known.find(({ pattern }) => pattern.test(path))?.path;
}
