// Comments cite the contract as `Contract: page#anchor`, a page of docs/contract. Every citation names a
// heading of docs/contract, and no comment cites a section by number or by its quoted title.
import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { page } from './support/markdown.ts';
import { ROOT } from './support/source.ts';

const PAGES = new Map(
  ['interface', 'decisions', 'neighbours', 'browsers', 'feed', 'history', 'portability', 'trying'].map((name) => [
    name,
    page(`docs/contract/${name}.md`),
  ]),
);
const NAMES = [...PAGES.keys()].join('|');
const CITATION = `(${NAMES})#[\\w-]+`;
const FORMER = new RegExp(
  ['of the decisions', 'of the service interface', 'of the guarantees', '\\w section \\d'].join('|'),
);

/** Every comment block of src, test, scripts and sql, as one line each. */
const comments = ['src', 'test', 'scripts', 'sql'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|sql|sh)$/.test(name) && name !== 'citations.test.ts')
    .flatMap((name) => commentsIn(`${folder}/${name}`)),
);

describe('citations of the contract', () => {
  test('name a page and a heading that exist', () => {
    const missing = comments.flatMap(({ where, text }) =>
      [...text.matchAll(new RegExp(`\\b(${NAMES})#([\\w-]*)`, 'g'))]
        .filter(([, name, anchor]) => !PAGES.get(name as string)?.anchors.has(anchor as string))
        .map(([citation]) => `${where}: ${citation}`),
    );
    expect(missing).toEqual([]);
  });

  test('follow the word `Contract:`, separated by commas, at the end of their comment', () => {
    const other = comments
      .filter(({ text }) => /\bContract:/.test(text))
      .filter(({ text }) => !new RegExp(`\\bContract: ${CITATION}(, ${CITATION})*\\.?$`).test(text));
    expect(other.map(({ where, text }) => `${where}: ${text}`)).toEqual([]);
  });

  test('name no section by its number and no page by another name', () => {
    const former = comments.filter(({ text }) => FORMER.test(text));
    expect(former.map(({ where, text }) => `${where}: ${text}`)).toEqual([]);
  });

  test('exist for every page', () => {
    for (const [name, least] of Object.entries({
      interface: 20,
      decisions: 20,
      neighbours: 0,
      browsers: 0,
      feed: 0,
      history: 0,
      portability: 0,
      trying: 0,
    })) {
      expect(comments.filter(({ text }) => text.includes(`Contract: ${name}#`)).length).toBeGreaterThan(least);
    }
  });
});

/** Consecutive comment lines of a file, joined by spaces, with the file and the first line's number. */
function commentsIn(path: string): { where: string; text: string }[] {
  const found: { where: string; text: string }[] = [];
  let last = Number.NEGATIVE_INFINITY;
  for (const [index, line] of readFileSync(join(ROOT, path), 'utf8').split('\n').entries()) {
    const text = /^\s*(?:\/\/|\/?\*+\/?|--)\s?(.*?)(?:\s*\*\/)?$/.exec(line)?.[1];
    if (text === undefined) continue;
    const block = found.at(-1);
    if (block && last === index - 1) block.text += ` ${text.trim()}`;
    else found.push({ where: `${path}:${index + 1}`, text: text.trim() });
    last = index;
  }
  return found;
}
