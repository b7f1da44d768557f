// Builds the console into dist/console: scripts split by page, one style sheet, the index page, each also compressed
// with Brotli and gzip. Names carry a hash of the content. Run by `scripts/console` when a source has changed, with
// Bun, whose bundler it uses. Builds beside the old result and then takes its place; fails with every message.
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const HERE = import.meta.dir;
const OUT = join(HERE, '../dist/console');
const WORK = `${OUT}.${process.pid}`;
/** What a person should not wait for: the index page names them, so that they load beside the entry. */
const NAMING = { entry: '[name]-[hash].[ext]', chunk: '[name]-[hash].[ext]', asset: '[name]-[hash].[ext]' };
/** Style sheets that come first, in this order; the others follow by path. */
const FIRST_STYLES = ['styles/tokens.css', 'styles/base.css'];

async function build(): Promise<void> {
  const began = performance.now();
  await rm(WORK, { recursive: true, force: true });
  await mkdir(WORK, { recursive: true });
  const [main, theme, style] = await Promise.all([
    bundle({ entrypoints: [join(HERE, 'main.tsx')], splitting: true }),
    bundle({ entrypoints: [join(HERE, 'theme.ts')], format: 'iife' }),
    styles(),
  ]);
  await writeFile(join(WORK, 'index.html'), await indexPage({ main, theme, style }));
  for (const name of await readdir(WORK)) await compress(join(WORK, name));
  await writeFile(join(WORK, 'stamp'), process.argv[2] ?? '');
  await rm(OUT, { recursive: true, force: true });
  await rename(WORK, OUT);
  console.error(`built the console in ${Math.round(performance.now() - began)} ms`);
}

/** The name of the entry's file. */
async function bundle(options: Partial<Bun.BuildConfig> & { entrypoints: string[] }): Promise<string> {
  const result = await Bun.build({
    ...options,
    target: 'browser',
    outdir: WORK,
    minify: true,
    naming: NAMING,
    jsx: { runtime: 'automatic', development: false, importSource: 'react' },
    define: { 'process.env.NODE_ENV': '"production"' },
  } as Bun.BuildConfig);
  const entry = result.outputs.find((output) => output.kind === 'entry-point');
  if (entry === undefined) throw new Error(`nothing was built from ${options.entrypoints.join(', ')}`);
  return entry.path.slice(entry.path.lastIndexOf('/') + 1);
}

/** One style sheet of all, so that no page waits for its own. */
async function styles(): Promise<string> {
  const found = (await readdir(HERE, { recursive: true })).filter((name) => name.endsWith('.css')).sort();
  const ordered = [...FIRST_STYLES, ...found.filter((name) => !FIRST_STYLES.includes(name))];
  const texts = await Promise.all(ordered.map((name) => readFile(join(HERE, name), 'utf8')));
  const text = `@layer tokens, base, parts, pages;\n${texts.join('\n')}`
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/\s*\n\s*/g, '\n')
    .replace(/\n+/g, '\n');
  const hash = Bun.hash(text).toString(36).padStart(8, '0').slice(0, 8);
  const name = `console-${hash}.css`;
  await writeFile(join(WORK, name), text);
  return name;
}

async function indexPage(names: { main: string; theme: string; style: string }): Promise<string> {
  const page = await readFile(join(HERE, 'index.html'), 'utf8');
  return page.replace(/\{(main|theme|style)\}/g, (_, name: keyof typeof names) => `/app/assets/${names[name]}`);
}

async function compress(path: string): Promise<void> {
  const bytes = await readFile(path);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  const [small, wide] = await Promise.all([
    promisify(brotliCompress)(bytes, { params }),
    promisify(gzip)(bytes, { level: 9 }),
  ]);
  await Promise.all([writeFile(`${path}.br`, small), writeFile(`${path}.gz`, wide)]);
}

try {
  await build();
} catch (cause) {
  await rm(WORK, { recursive: true, force: true });
  console.error(cause);
  process.exitCode = 1;
}
