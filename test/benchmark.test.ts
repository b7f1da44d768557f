// The parts of the bench that decide: pairs and their ratios, limits of the check, options, the plot. Its measurements run
// in `./scripts/bench` only.
import { describe, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { baseCommit, checkOut } from '../scripts/benchmark/base-checkout.ts';
import { limits, readRatios } from '../scripts/benchmark/committed-ratios.ts';
import { mixedWorkload } from '../scripts/benchmark/mixed-workload.ts';
import { OPERATIONS, readOptions, USAGE } from '../scripts/benchmark/options.ts';
import { isSurelyAbove, measurePairs, pairedFigures } from '../scripts/benchmark/paired.ts';
import { plot } from '../scripts/benchmark/plot.ts';
import { rowVerdict } from '../scripts/benchmark/verdict.ts';

const ROOT = join(import.meta.dir, '..');
const ROW = { id: 'get', label: 'get <by> id', against: 'bare', must: 1.6, goal: 1.2 };

describe('pairs', () => {
  test('each round begins with the other side', async () => {
    const order: string[] = [];
    const side = (name: string) => async (round: number) => order.push(`${name}${round}`);
    await measurePairs(3, side('bare'), side('service'));
    expect(order).toEqual(['bare0', 'service0', 'service1', 'bare1', 'bare2', 'service2']);
  });

  test('the ratio is the median of the ratios of the rounds, not the ratio of medians', () => {
    const slowMachine = { baseline: 300, subject: 600 };
    const pairs = [{ baseline: 100, subject: 200 }, slowMachine, { baseline: 110, subject: 330 }];
    expect(pairedFigures(pairs)).toEqual({ baseline: 110, subject: 330, ratios: [2, 2, 3], ratio: 2, spread: [2, 3] });
  });

  test('rounds show a ratio above a limit only when noise explains them in less than one of a hundred runs', () => {
    const rounds = (within: number, above: number) => [...Array(within).fill(1), ...Array(above).fill(1.3)];
    expect(isSurelyAbove(rounds(0, 6), 1.25)).toBe(false);
    expect(isSurelyAbove(rounds(0, 7), 1.25)).toBe(true);
    expect(isSurelyAbove(rounds(4, 16), 1.25)).toBe(true);
    expect(isSurelyAbove(rounds(5, 15), 1.25)).toBe(false);
  });

  test('a ratio up to the goal reaches it, one up to `must` is within, a larger one misses', () => {
    const verdicts = [1.2, 1.6, 1.61].map((ratio) => rowVerdict({ ...ROW, ratio }));
    expect([...verdicts, rowVerdict({ ...ROW, failure: 'no answer' })]).toEqual(['goal', 'must', 'MISSED', 'FAILED']);
    expect(rowVerdict({ ...ROW, ratio: 1.7, isUnsure: true })).toBe('unsure');
  });
});

describe('the check against an earlier commit', () => {
  test('a row may need 1.25 times the CPU, more when its ratio was raised, and no less when it was lowered', () => {
    const here = { get: 1.5, list: 3, create: 1, added: 2 };
    const before = { get: 1.5, list: 2, create: 2, removed: 1 };
    const allowed = { get: 1.25, list: 1.875, create: 1.25, added: 1.25 };
    expect(Object.fromEntries(limits(here, before))).toEqual(allowed);
  });

  test('every committed ratio is that of a row', () => {
    const names: readonly string[] = OPERATIONS;
    const ids = Object.keys(readRatios(ROOT));
    expect(ids.length).toBeGreaterThan(0);
    expect(ids.filter((id) => !names.includes(id))).toEqual([]);
  });

  test('a commit that is not in the history is not found', () => {
    expect(baseCommit('no-such-commit')).toBeNull();
  });

  test('a commit is checked out with the dependencies of this checkout', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'bench-test-'));
    try {
      const head = baseCommit('HEAD');
      // An unpacked archive has no history.
      if (head === null) return;
      const checkout = await checkOut(head, directory);
      const files = ['src/main.ts', 'package-lock.json', 'node_modules/.bin/bun'];
      expect(files.filter((file) => !existsSync(join(checkout, file)))).toEqual([]);
      expect(readRatios(join(directory, 'elsewhere'))).toEqual({});
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

describe('the mixed load', () => {
  const asked = (method: string) => (at: number | string) => ({ method, path: `/${at}` });
  const side = {
    ...{ server: { pid: 0, port: 0, database: '' }, records: 8, ids: ['new', 'b', 'a'] },
    newest: async (count: number) => ['new', 'newer', 'older'].slice(0, count),
    ...{ get: asked('GET'), search: asked('GET'), list: () => asked('GET')(''), filter: () => asked('GET')('?') },
    ...{ update: asked('PATCH'), create: asked('POST'), delete: asked('DELETE') },
    problems: {
      ...{ get: () => 'get', list: () => 'list', filter: () => 'filter', search: () => 'search' },
      ...{ update: () => 'update', create: () => 'create', delete: () => 'delete' },
    },
  };

  test('of twenty requests sixteen read, two update, one creates and one deletes one of the newest quarter', async () => {
    const workload = mixedWorkload(side, 3);
    const targets = await workload.targets();
    const kinds = targets.slice(0, 20).map((target) => workload.problem(null, target) ?? '');
    const times = (kind: string) => kinds.filter((other) => other === kind).length;
    expect(['get', 'list', 'filter', 'search', 'update', 'create', 'delete'].map(times)).toEqual([4, 4, 4, 4, 2, 1, 1]);
    expect(targets.filter(({ method }) => method === 'DELETE').map(({ path }) => path)).toEqual(['/new', '/newer']);
    expect(targets.filter(({ method, path }) => method !== 'DELETE' && path === '/new')).toEqual([]);
  });
});

describe('options', () => {
  test('every option of the usage is read', () => {
    const names = [...USAGE.matchAll(/^ {2}(--[a-z]+)/gm)].map(([, name]) => name as string);
    const values: Record<string, string> = {
      '--only': 'get',
      '--attacks': 'idle',
      '--plot': 'a.svg',
      '--json': 'a.json',
    };
    const given = names
      .filter((name) => name !== '--help')
      .flatMap((name) => (name === '--self' ? [name] : [name, values[name] ?? '3']));
    const options = readOptions(given, {});
    expect(options).toMatchObject({ records: 3, rounds: 3, soak: 3, check: '3', plot: 'a.svg', self: true });
  });

  test('without values a soak run takes ten minutes, and a check has short rounds and no commit', () => {
    expect(readOptions(['--soak', '--check'], {})).toMatchObject({ soak: 10, check: '', rounds: 4, seconds: 0.5 });
    expect(readOptions([], {})).toMatchObject({ soak: null, check: null, rounds: 5, seconds: 3 });
  });

  test('an unknown argument is named', () => {
    expect(() => readOptions(['--fast'], {})).toThrow('--fast: unknown');
    expect(() => readOptions(['--only', 'got'], {})).toThrow('--only: got is not one of');
  });
});

test('the plot is well-formed SVG with a mark for each measured row, and suits light and dark pages', () => {
  const machine = { cpu: 'A & B', cores: 2, postgres: '15', redis: '7', bun: '1' };
  const svg = plot(
    [
      { ...ROW, ratio: 1.3, spread: [1.2, 1.4] },
      { ...ROW, failure: 'none' },
    ],
    machine,
  );
  expect(svg.match(/<circle/g)).toHaveLength(1);
  expect(svg).toContain('get &lt;by> id');
  expect(svg).toContain('A &amp; B');
  expect(svg).toContain('prefers-color-scheme: dark');
  const opened = svg.match(/<(svg|style|text|rect|line|circle)\b/g)?.length;
  const closed = (svg.match(/<\/(svg|style|text)>/g)?.length ?? 0) + (svg.match(/\/>/g)?.length ?? 0);
  expect(closed).toBe(opened as number);
});

test('the plot of the documentation exists', () => {
  expect(readFileSync(join(ROOT, 'docs/benchmarks.svg'), 'utf8')).toStartWith('<svg');
});
