// Reads the Markdown pages of the repository: their headings and anchors, links and code blocks. Anchors are made as
// GitHub makes them: lower case, no punctuation, hyphens for spaces, `-1` and so on for a repeated heading.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './source.ts';

/** A fenced block: the language after the fence, its text, and the number of its first line (from 1). */
export type Block = { language: string; text: string; line: number };

/** A page; `prose` is its text with fenced blocks and inline code left blank. */
export type Page = { path: string; text: string; prose: string; anchors: Set<string>; blocks: Block[] };

/** README.md and the other pages at the root, and every page below docs/, by path. */
export function pages(): Page[] {
  const atRoot = readdirSync(ROOT).filter((name) => name.endsWith('.md'));
  const below = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`);
  return [...atRoot, ...below].toSorted().map(page);
}

/** One page, by its path from the root. */
export function page(path: string): Page {
  const text = readFileSync(join(ROOT, path), 'utf8');
  const blocks: Block[] = [];
  const kept: string[] = [];
  let open: { fence: string; block: Block; lines: string[] } | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    const fence = /^\s*(`{3,})(.*)$/.exec(line);
    if (open && fence?.[1] === open.fence && fence[2] === '') {
      blocks.push({ ...open.block, text: open.lines.join('\n') });
      open = null;
    } else if (open) open.lines.push(line);
    else if (fence) {
      const block: Block = { language: (fence[2] as string).trim(), text: '', line: index + 2 };
      open = { fence: fence[1] as string, block, lines: [] };
    }
    kept.push(open || fence ? '' : line);
  }
  return { path, text, prose: kept.join('\n').replace(/`[^`\n]*`/g, ''), anchors: anchorsIn(kept), blocks };
}

function anchorsIn(lines: string[]): Set<string> {
  const anchors = new Set<string>();
  for (const line of lines) {
    const heading = /^#{1,6} (.+)$/.exec(line)?.[1];
    if (heading === undefined) continue;
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
    let unique = anchor;
    for (let repeat = 1; anchors.has(unique); repeat++) unique = `${anchor}-${repeat}`;
    anchors.add(unique);
  }
  return anchors;
}
