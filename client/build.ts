// Builds the package into client/dist: one module, its types, and the same for `require`, compiled from the bundled sources.
// Run by `npm run build`. Builds beside the old result and then takes its place; fails with the compiler's messages and
// leaves the old result.
import { execFile } from 'node:child_process';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { bundledClient } from './bundle.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const OUT = `${HERE}dist`;
const WORK = `${OUT}.${process.pid}`;
const FLAGS =
  `--ignoreConfig --declaration --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --target es2022
  --module node20 --lib es2022,dom --types`.split(/\s+/);

try {
  await mkdir(WORK, { recursive: true });
  const text = await bundledClient();
  await writeFile(`${WORK}/package.json`, '{ "type": "module" }');
  for (const name of ['index.ts', 'index.cts']) await writeFile(`${WORK}/${name}`, text);
  const tsc = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url));
  await promisify(execFile)(tsc, [...FLAGS, '', `${WORK}/index.ts`, `${WORK}/index.cts`]);
  for (const name of ['index.ts', 'index.cts', 'package.json']) await rm(`${WORK}/${name}`);
  await rm(OUT, { recursive: true, force: true });
  await rename(WORK, OUT);
} catch (cause) {
  await rm(WORK, { recursive: true, force: true });
  const { stdout, message } = cause as Error & { stdout?: string };
  console.error(stdout || message);
  process.exitCode = 1;
}
