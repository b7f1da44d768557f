// The thread that compiles and matches costly patterns: pattern-thread.ts posts `{ source, value }`, and the thread posts
// `{ size, matches }`; both are null for a pattern that is not valid. Matching blocks this thread only.
// Contract: neighbours#fair-shares.
import { parentPort } from 'node:worker_threads';

import { Programs } from './program.ts';

const COMPILED_MAX = 100;
const programs = new Programs(COMPILED_MAX);

parentPort?.on('message', ({ source, value }: { source: string; value: string | null }) => {
  const program = programs.get(source);
  const matches = program === null || value === null ? null : program.test(value);
  parentPort?.postMessage({ size: program?.size ?? null, matches });
});
