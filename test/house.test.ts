// The rules for sources, checked on src, scripts and the client: import order, sizes of files and functions, names, headers,
// portability. The rules on size and contents also apply to the console, except sizes of functions, which Biome measures there
// because they contain JSX (biome.json). A failure lists every offender at once.
import { describe, expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { blanked, functionsOf, ROOT, resolved, type Source, sourcesIn } from './support/source.ts';

/** In order: a file imports from its own folder and from those before it. */
const ORDER = `limits.ts errors.ts config.ts runtime expression app.ts tenants usage events access http entities records
  messages rules views changes history webhooks realtime explain users bots keys admin portability invitations health breaks.ts docs mcp console api.ts demo demo.ts serve service.ts mcp-stdio.ts main.ts cli`.split(
  /\s+/,
);
const FORBIDDEN = ['utils', 'helpers', 'common', 'shared', 'types', 'lib', 'services', 'models', 'middleware', 'index'];
/** Packages that run or check the code, which no file imports. */
const TOOLS = ['@biomejs/biome', 'bun', 'bun-types', 'deno', 'typescript'];
const MAX_FILE_LINES = 300;
const MAX_MEDIAN_FILE_LINES = 110;
const MAX_FUNCTION_LINES = 70;
const MEDIAN_FUNCTION_LINES_BELOW = 12;

const sources = sourcesIn('src');
const scripts = sourcesIn('scripts');
const client = sourcesIn('client').filter(({ path }) => !path.startsWith('client/dist'));
const house = [...sources, ...scripts, ...client];
const pages = sourcesIn('console');
const tests = sourcesIn('test');
const topFolder = (path: string): string => path.split('/')[1] as string;
const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
/** A package at the beginning of a specifier. */
const quoted = (name: string): RegExp => new RegExp(`['\`]${name}['/]`);
const relativeImports = (source: Source): string[] =>
  source.imports.filter((specifier) => specifier.startsWith('.')).map((specifier) => resolved(source, specifier));

describe('imports', () => {
  test('every file of src has a position in the layout', () => {
    const strangers = sources.map((source) => source.path).filter((path) => !ORDER.includes(topFolder(path)));
    expect(strangers).toEqual([]);
  });

  test('a file imports only from its own folder and from those above it', () => {
    const upward = sources.flatMap((source) =>
      relativeImports(source)
        .filter((target) => ORDER.indexOf(topFolder(target)) > ORDER.indexOf(topFolder(source.path)))
        .map((target) => `${source.path} imports ${target}`),
    );
    expect(upward).toEqual([]);
  });

  test('imports name files with their extension, and only imports of the client leave src', () => {
    const wrong = sources.flatMap((source) =>
      relativeImports(source)
        .filter((target) => !/^(src|client)\/.*\.ts$/.test(target) || !existsSync(join(ROOT, target)))
        .map((target) => `${source.path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test('the sources of the client import only each other', () => {
    const foreign = client
      .filter(({ path }) => path.startsWith('client/src/'))
      .flatMap((source) =>
        source.imports.map((specifier) => ({ specifier, target: resolved(source, specifier), source })),
      )
      .filter(({ specifier, target }) => !specifier.startsWith('.') || !/^client\/src\/.*\.ts$/.test(target))
      .map(({ source, specifier }) => `${source.path} imports ${specifier}`);
    expect(foreign).toEqual([]);
  });

  test('records import from events only what publishes changes, or erases them', () => {
    const publication = [
      'before-image.ts',
      'entity-change.ts',
      'erasure.ts',
      'event.ts',
      'outbox.ts',
      'publication.ts',
    ].map((name) => `src/events/${name}`);
    const known = sources
      .filter((source) => topFolder(source.path) === 'records')
      .flatMap((source) => relativeImports(source).map((target) => [source.path, target] as const))
      .filter(([, target]) => topFolder(target) === 'events' && !publication.includes(target))
      .map(([path, target]) => `${path} imports ${target}`);
    expect(known).toEqual([]);
  });

  test('scripts import from scripts, src and test/support only', () => {
    const wrong = scripts.flatMap((source) =>
      relativeImports(source)
        .filter((target) => !/^(scripts|src|test\/support)\/.*\.ts$/.test(target) || !existsSync(join(ROOT, target)))
        .map((target) => `${source.path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  test('there are no cycles', () => {
    expect(cycles(new Map(house.map((source) => [source.path, relativeImports(source)])))).toEqual([]);
  });

  test('src imports only declared dependencies and node: modules', () => {
    const declared = Object.keys(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).dependencies);
    const foreign = sources.flatMap((source) =>
      source.imports
        .filter((specifier) => !/^(\.|node:)/.test(specifier))
        .filter((specifier) => !declared.some((name) => specifier === name || specifier.startsWith(`${name}/`)))
        .map((specifier) => `${source.path} imports ${specifier}`),
    );
    expect(foreign).toEqual([]);
  });

  test('every package that is installed is imported, or is a tool', () => {
    const { dependencies, devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const all = [...house, ...pages, ...tests].map(({ text }) => text);
    const isUsed = (name: string): boolean =>
      TOOLS.includes(name) || name.startsWith('@types/') || all.some((text) => quoted(name).test(text));
    const unused = Object.keys({ ...dependencies, ...devDependencies }).filter((name) => !isUsed(name));
    expect(unused).toEqual([]);
  });

  test('the lock file has an entry for every optional package, which npm ci requires', () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
    const missing = Object.entries<{ optionalDependencies?: Record<string, string> }>(packages).flatMap(([at, entry]) =>
      Object.keys(entry.optionalDependencies ?? {}).filter(
        (name) => !packages[`node_modules/${name}`] && !packages[`${at}/node_modules/${name}`],
      ),
    );
    expect(missing, 'run: node tools/complete-lock.mjs').toEqual([]);
  });
});

describe('sizes', () => {
  const functions = house.flatMap(functionsOf);

  test(`no file has more than ${MAX_FILE_LINES} lines`, () => {
    const long = [...house, ...pages].filter((source) => source.lines > MAX_FILE_LINES);
    expect(long.map((source) => `${source.path}: ${source.lines}`)).toEqual([]);
  });

  test(`the median file has at most ${MAX_MEDIAN_FILE_LINES} lines`, () => {
    for (const files of [house, pages]) {
      expect(median(files.map((source) => source.lines))).toBeLessThanOrEqual(MAX_MEDIAN_FILE_LINES);
    }
  });

  test(`no function has more than ${MAX_FUNCTION_LINES} lines`, () => {
    const long = functions.filter((size) => size.lines > MAX_FUNCTION_LINES);
    expect(long.map((size) => `${size.where}: ${size.lines}`)).toEqual([]);
  });

  test(`the median function has fewer than ${MEDIAN_FUNCTION_LINES_BELOW} lines`, () => {
    expect(functions.length).toBeGreaterThan(house.length);
    expect(median(functions.map((size) => size.lines))).toBeLessThan(MEDIAN_FUNCTION_LINES_BELOW);
  });
});

describe('names and contents', () => {
  test('no file has a name that says nothing, such as utils or types', () => {
    const named = house.filter((source) => source.path.split(/[/.]/).some((part) => FORBIDDEN.includes(part)));
    expect(named.map((source) => source.path)).toEqual([]);
  });

  test('files are named in kebab-case', () => {
    const named = [...house, ...pages, ...tests].filter((source) => !/^[a-z0-9/.-]+$/.test(source.path));
    expect(named.map((source) => source.path)).toEqual([]);
  });

  test('no file re-exports another one whole', () => {
    const barrels = [...house, ...pages].filter((source) => /^export \*/m.test(source.code));
    expect(barrels.map((source) => source.path)).toEqual([]);
  });

  test('every file begins with a header comment of 3 to 8 lines, in the console of 1 to 8', () => {
    const header = ({ text }: Source): number => (/^(?:\/\/.*\n)*/.exec(text)?.[0].split('\n').length ?? 1) - 1;
    const wrong = [
      ...house.filter((source) => header(source) < 3 || header(source) > 8),
      ...pages.filter((source) => header(source) < 1 || header(source) > 8),
    ];
    expect(wrong.map((source) => source.path)).toEqual([]);
  });

  test('only the adapters name a runtime', () => {
    const named = sources.filter(
      (source) =>
        (/\bBun\b/.test(source.code) && source.path !== 'src/serve/bun.ts') ||
        (/\bDeno\./.test(source.code) && source.path !== 'src/serve/deno.ts') ||
        source.imports.some((specifier) => /^bun\b/.test(specifier)),
    );
    expect(named.map((source) => source.path)).toEqual([]);
  });

  test('there are no TODOs and no empty catch blocks', () => {
    const others = [...house, ...tests].filter((source) => source.path !== 'test/house.test.ts');
    const isEmpty = (code: string): boolean => /\bcatch\s*(\([^)]*\)\s*)?\{\s*\}/.test(code);
    // In the console, a catch may hold only the reason why nothing is done: storage may be refused, for example.
    const left = [
      ...others.filter(({ code }) => isEmpty(code)),
      ...pages.filter(({ text }) => isEmpty(text)),
      ...[...others, ...pages].filter(({ text }) => /\b(TODO|FIXME|XXX)\b/.test(text)),
    ];
    expect(left.map((source) => source.path)).toEqual([]);
  });

  test('no test is skipped or run alone', () => {
    const set = tests.filter((source) => /\b(test|it|describe)\.(skip|only|todo|skipIf|todoIf|if)\b/.test(source.code));
    expect(set.map((source) => source.path)).toEqual([]);
  });
});

test('the scanner finds every kind of function, and nothing else', () => {
  const text = [
    'async function one(a: { b: string }): Promise<{ c: Map<string, number> }> {',
    '  if (a) { return `${a ? `}` : "{"}`; }',
    '}',
    'const two = (x: RegExp = /[{/]/): x is Foo => {',
    '};',
    'function ten(): Eleven {',
    '}',
    'class Three extends Four<Five> {',
    '  get six(): number {',
    '    return 1;',
    '  }',
    '}',
    'interface Seven { eight(): { nine: 1 }; ten(): Eleven | { nine: 1 } }',
  ].join('\n');
  const source = { path: 'x', text, lines: 13, code: blanked(text), imports: [] };
  expect(functionsOf(source).map((size) => `${size.where} ${size.lines}`)).toEqual([
    'x:1 3',
    'x:4 2',
    'x:6 2',
    'x:9 3',
  ]);
});

/** Each cycle once, as the list of its files. */
function cycles(graph: Map<string, string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const seenAt = trail.indexOf(path);
    if (seenAt >= 0) found.push([...trail.slice(seenAt), path].join(' -> '));
    if (seenAt >= 0 || done.has(path)) return;
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return found;
}
