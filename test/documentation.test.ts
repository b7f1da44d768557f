// Runs what README and docs/ tell readers to run: every `sh` block, in order, in one shell per page, against one
// service with its embedded defaults. A block may state what happens: `# => text` is printed (`...` matches any text),
// and `# 403 FORBIDDEN` is an error answer; any other error answer fails. A code block whose first line is a comment
// with a file name is saved under that name. All links and anchors resolve, and the tables of reference/ match the
// sources.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { spawn } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { readConfig, variableNames } from '../src/config.ts';
import { STATUS_BY_CODE } from '../src/errors.ts';
import { LIMITS } from '../src/limits.ts';
import { type Block, type Page, page, pages } from './support/markdown.ts';
import { ROOT } from './support/source.ts';
import { endAll, newDataDir, START, startProcess } from './support/started.ts';
import { copyEmbedded } from './support/stores.ts';

const README_LINES_MAX = 120;
/** A page that takes longer has hung. */
const PAGE_MS_MAX = 60_000;
const DEFAULT_ADDRESS = 'http://127.0.0.1:3000';
const ALL = pages();
const RUNNABLE = ALL.filter(({ blocks }) => blocks.some(isRun));
/** Sets API, ADMIN, KEY, JSON, pick and await, which every page uses. */
const FIRST_CALLS = page('README.md').blocks.find(isRun) as Block;

let directory: string;
let address: string;

beforeAll(async () => {
  directory = await newDataDir();
  const dataDir = join(directory, '.data');
  await mkdir(dataDir);
  await copyEmbedded(dataDir);
  for (const name of ['node_modules', 'package.json', 'scripts', 'src', 'sql', 'docs', 'client']) {
    await symlink(join(ROOT, name), join(directory, name));
  }
  const environment = { DATA_DIR: dataDir, WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' };
  address = await startProcess(START, environment).address;
});

afterAll(endAll);

describe('every sh block runs with the stated results', () => {
  for (const path of RUNNABLE.map(({ path }) => path)) {
    test(path, async () => {
      const { blocks } = page(path);
      const shown = blocks.filter(isRun);
      for (const block of blocks) await saveFile(block);
      const isFirst = shown[0]?.text === FIRST_CALLS.text;
      const outputs = await run((isFirst ? shown : [FIRST_CALLS, ...shown]).map(({ text }) => text));
      const faults = shown.flatMap((block, i) =>
        faultsOf(block, outputs[isFirst ? i : i + 1]).map((fault) => `${path}:${block.line}: ${fault}`),
      );
      expect(faults).toEqual([]);
    });
  }
});

describe('links', () => {
  test('lead to files and headings that exist', () => {
    const broken = ALL.flatMap((from) =>
      [...from.prose.matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, target = '']) => target)
        .filter((target) => !/^(https?|mailto):/.test(target) && !resolves(from, target))
        .map((target) => `${from.path}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  test('lead from README to every page of docs/, directly or through other pages', () => {
    const seen = new Set<string>();
    const visit = (path: string): void => {
      if (seen.has(path) || !path.endsWith('.md')) return;
      seen.add(path);
      for (const [, target = ''] of page(path).prose.matchAll(/\]\(([^)\s#]+)[^)]*\)/g)) {
        if (!target.includes(':')) visit(join(dirname(path), target));
      }
    };
    visit('README.md');
    expect(ALL.map(({ path }) => path).filter((path) => !seen.has(path))).toEqual([]);
  });
});

describe('pages', () => {
  test(`README has at most ${README_LINES_MAX} lines`, () => {
    expect(page('README.md').text.trimEnd().split('\n').length).toBeLessThanOrEqual(README_LINES_MAX);
  });

  test('name files and folders that exist', () => {
    const missing = ALL.flatMap(({ path, text }) =>
      [...text.matchAll(/`((?:src|sql|test|scripts|docs|tools)\/[\w./-]*)`/g)]
        .map(([, name]) => name as string)
        .filter((name) => !existsSync(join(ROOT, name)))
        .map((name) => `${path}: ${name}`),
    );
    expect(missing).toEqual([]);
  });

  test('blocks have a language', () => {
    const bare = ALL.flatMap(({ path, blocks }) =>
      blocks.filter(({ language }) => language === '').map(({ line }) => `${path}:${line}`),
    );
    expect(bare).toEqual([]);
  });
});

describe('the tables of reference/', () => {
  test('errors: every code with its status, and no other', () => {
    const listed = rows('docs/reference/errors.md').filter(([status = '']) => /^\d{3}$/.test(status));
    expect(Object.fromEntries(listed.map(([status, code = '']) => [unquoted(code), Number(status)]))).toEqual(
      STATUS_BY_CODE,
    );
  });

  test('configuration: every variable with its default, and no other', () => {
    const listed = rows('docs/reference/configuration.md').filter(([name = '']) => /^`[A-Z_]+`$/.test(name));
    expect(listed.map(([name = '']) => unquoted(name)).toSorted()).toEqual(variableNames().toSorted());
    for (const [name = '', standard = ''] of listed) {
      const value = /^`([^`]+)`$/.exec(standard)?.[1];
      if (value === undefined) continue;
      expect(readConfig({ [unquoted(name)]: value }), `${name} = ${value}`).toEqual(readConfig({}));
    }
  });

  test('limits: every number under its name, and no other', () => {
    const listed = rows('docs/reference/limits.md').filter(([name = '']) => name.startsWith('`'));
    const values = listed.map(([name = '', value = '']) => [unquoted(name), value.replaceAll(',', '')]);
    expect(Object.fromEntries(values)).toEqual(Object.fromEntries(numbersIn(LIMITS)));
  });

  test('metrics: every metric of a running service with its type, and no other', async () => {
    const listed = rows('docs/reference/metrics.md').filter(([name = '']) => name.startsWith('`'));
    expect(Object.fromEntries(listed.map(([name = '', type]) => [unquoted(name), type]))).toEqual(
      Object.fromEntries(await exposedMetrics()),
    );
  });

  test('the dashboard and the alert rules use metrics of a running service and their labels, and no other', async () => {
    const exposed = (await exposedMetrics()).flatMap(([name, type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    );
    const reference = await Bun.file(join(ROOT, 'docs/reference/metrics.md')).text();
    const ofPrometheus = ['up', 'le', 'instance', 'job'];
    const isLabel = (name: string): boolean => ofPrometheus.includes(name) || reference.includes(`\`${name}\``);
    const used = [...(await dashboardQueries()), ...(await alertQueries())].map(partsOf);
    expect(used.length).toBeGreaterThan(30);
    const metrics = used.flatMap((parts) => parts.metrics).filter((name) => !ofPrometheus.includes(name));
    expect(metrics.filter((name) => !exposed.includes(name))).toEqual([]);
    expect(used.filter((parts) => parts.metrics.length === 0)).toEqual([]);
    expect(used.flatMap(({ labels }) => labels).filter((name) => !isLabel(name))).toEqual([]);
  });
});

/** The names of the metrics of the running service, with their types. */
async function exposedMetrics(): Promise<[name: string, type: string][]> {
  const secret = (await Bun.file(join(directory, '.data/admin-secret')).text()).trim();
  const text = await (await fetch(`${address}/metrics`, { headers: { 'x-admin-secret': secret } })).text();
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]);
}

async function dashboardQueries(): Promise<string[]> {
  const { panels, annotations } = await Bun.file(join(ROOT, 'docs/grafana-dashboard.json')).json();
  const ids = panels.map(({ id }: { id: number }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const charts = [...panels.flatMap(({ targets = [] }) => targets), ...annotations.list] as { expr: string }[];
  return charts.map(({ expr }) => expr);
}

async function alertQueries(): Promise<string[]> {
  const { groups } = Bun.YAML.parse(await Bun.file(join(ROOT, 'docs/alerts.yaml')).text()) as {
    groups: { rules: { alert: string; expr: string }[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  const explained = await Bun.file(join(ROOT, 'docs/how-to/observe.md')).text();
  expect(rules.map(({ alert }) => alert).filter((name) => !explained.includes(`\`${name}\``))).toEqual([]);
  return rules.map(({ expr }) => expr);
}

/** The metrics and the labels that a Prometheus query names. */
function partsOf(query: string): { metrics: string[]; labels: string[] } {
  const clause = /\bby \(([^)]*)\)|\{([^}]*)\}/g;
  const labels = [...query.matchAll(clause)].flatMap(([, by, matchers]) =>
    by === undefined
      ? [...(matchers ?? '').matchAll(/(\w+)\s*[=!]/g)].map(([, name = '']) => name)
      : by.split(',').map((name) => name.trim()),
  );
  const bare = query.replace(clause, ' ').replace(/\[[^\]]*\]/g, ' ');
  const metrics = [...bare.matchAll(/\b[a-z]\w+\b(?!\s*\()/g)].map(([name]) => name);
  return { metrics: metrics.filter((name) => !['and', 'by', 'or'].includes(name)), labels };
}

function isRun({ language }: Block): boolean {
  return language === 'sh';
}

async function saveFile({ text }: Block): Promise<void> {
  const name = /^(?:\/\/|#|<!--) ([\w-]+\.\w+)(?: -->)?\n/.exec(text)?.[1];
  if (name !== undefined) await writeFile(join(directory, name), `${text}\n`);
}

/** Runs the texts in one shell; resolves to what each printed. A command that fails ends the shell. */
async function run(texts: readonly string[]): Promise<string[]> {
  const mark = '\x1e\n';
  const endJobs = `trap 'kill $(jobs -p) 2>/dev/null || true' EXIT`;
  const script = [endJobs, ...texts.map((text) => `${text}\nprintf '${mark}'`)].join('\n');
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn('bash', ['-eu', '-c', script.replaceAll(DEFAULT_ADDRESS, address)], {
    cwd: directory,
    env: { PATH, HOME, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      said += String(text);
    });
  }
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  const late = setTimeout(() => child.kill(), PAGE_MS_MAX);
  const code = await closed;
  clearTimeout(late);
  const outputs = said.split(mark);
  if (code !== 0) throw new Error(`block ${outputs.length} ended the shell with ${code}:\n${outputs.at(-1)}`);
  return outputs;
}

/** How the output of a block differs from what its comments state. */
function faultsOf({ text }: Block, output = ''): string[] {
  const stated = [...text.matchAll(/# ([1-5]\d\d) ([A-Z_]{4,})\b/g)].map(([, , code]) => code as string);
  const answered = [...output.matchAll(/"success":false,"error":\{"code":"([A-Z_]+)"/g)].map(
    ([, code]) => code as string,
  );
  const faults: string[] = [];
  if (stated.join() !== answered.join()) faults.push(`errors: stated ${stated}, answered ${answered}: ${output}`);
  let from = 0;
  for (const [, expected = ''] of text.matchAll(/^\s*# => (.*)$/gm)) {
    const pattern = expected
      .split('...')
      .map((part) => RegExp.escape(part))
      .join('.*');
    const found = new RegExp(pattern).exec(output.slice(from));
    if (found) from += found.index + found[0].length;
    else faults.push(`no ${expected} in: ${output}`);
  }
  return faults;
}

function resolves(from: Page, target: string): boolean {
  const [path = '', anchor] = target.split('#');
  const full = path === '' ? from.path : join(dirname(from.path), path);
  if (!existsSync(join(ROOT, full))) return false;
  if (anchor === undefined) return true;
  return statSync(join(ROOT, full)).isFile() && page(full).anchors.has(anchor);
}

/** The cells of the tables of a page, row by row. */
function rows(path: string): string[][] {
  return page(path)
    .text.split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
}

function unquoted(cell: string): string {
  return cell.replaceAll('`', '');
}

/** Each number in a tree with its dotted path; a list of numbers is joined with semicolons. */
function numbersIn(tree: object, prefix = ''): [string, string][] {
  return Object.entries(tree).flatMap(([name, value]): [string, string][] =>
    typeof value === 'number' || Array.isArray(value)
      ? [[prefix + name, [value].flat().join('; ')]]
      : numbersIn(value, `${prefix}${name}.`),
  );
}
