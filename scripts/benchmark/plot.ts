// The plot of the ratios, as SVG: a line a row from the lowest to the highest ratio of its rounds, a mark at their median,
// ticks at its limits, and the other platforms where they were measured. The axis is logarithmic; 1 is the bare handler.
// Readable on light and on dark pages.

import { PEERS } from './peers.ts';
import type { machineFacts } from './report.ts';
import type { Row } from './rows.ts';
import { rowVerdict } from './verdict.ts';

const WIDTH = 900;
const LEFT = 290;
const RIGHT = 60;
const TOP = 64;
const ROW = 24;
const BOTTOM = 64;
const GRID = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];
const [LOWEST, HIGHEST] = [GRID[0] as number, GRID.at(-1) as number];

const STYLE = `
    svg { --page: #ffffff; --ink: #1f2328; --faint: #d0d7de; --soft: #57606a; --goal: #1a7f37; --must: #0969da; --MISSED: #cf222e; }
    @media (prefers-color-scheme: dark) {
      svg { --page: #0d1117; --ink: #e6edf3; --faint: #30363d; --soft: #9198a1; --goal: #3fb950; --must: #4493f8; --MISSED: #f85149; }
    }
    text { font: 12px system-ui, sans-serif; fill: var(--ink); }
    .soft { fill: var(--soft); }
    .title { font-weight: 600; font-size: 14px; }
    .grid { stroke: var(--faint); }
    .bare { stroke: var(--soft); stroke-width: 1.5; }
    .limit { stroke: var(--ink); stroke-width: 2; }
    .peer { fill: var(--soft); font-size: 10px; }`;

type Measured = Row & { ratio: number };

/** The rows without a ratio are left out. */
export function plot(rows: readonly Row[], machine: ReturnType<typeof machineFacts>): string {
  const measured = rows.filter((row): row is Measured => row.ratio !== undefined);
  const height = TOP + measured.length * ROW + BOTTOM;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="CPU of each operation">`,
    `  <style>${STYLE}\n  </style>`,
    `  <rect width="${WIDTH}" height="${height}" style="fill: var(--page)"/>`,
    text(16, 26, 'CPU a request, service divided by bare handler', 'title'),
    text(16, 44, `${machine.cores} cores, ${machine.cpu}; Postgres ${machine.postgres}, Bun ${machine.bun}`, 'soft'),
    ...GRID.flatMap((value) => gridLine(value, height - BOTTOM)),
    ...measured.flatMap((row, at) => rowMarks(row, TOP + at * ROW + ROW / 2)),
    text(16, height - 30, 'Mark: median of the rounds; line: lowest to highest; | must, ¦ goal.', 'soft'),
    text(
      16,
      height - 14,
      'P, D: Parse Server and Directus, measured by requests a second beside a bare handler on an earlier day.',
      'soft',
    ),
    '</svg>',
  ].join('\n')}\n`;
}

function rowMarks(row: Measured, y: number): string[] {
  const colour = `var(--${rowVerdict(row)})`;
  const [lowest, highest] = row.spread ?? [row.ratio, row.ratio];

  return [
    text(LEFT - 12, y + 4, row.label, '', 'end'),
    ...peersOf(row.id).map(({ name, factor }) => text(position(factor), y + 4, name, 'peer', 'middle')),
    line(position(lowest), y, position(highest), y, `style="stroke: ${colour}; stroke-width: 3"`),
    ...(row.must === null ? [] : [limit(row.must, y, '')]),
    ...(row.goal === null ? [] : [limit(row.goal, y, ' stroke-dasharray="3 3"')]),
    `  <circle cx="${position(row.ratio)}" cy="${y}" r="5" style="fill: ${colour}"/>`,
    text(WIDTH - 16, y + 4, row.ratio.toFixed(2), '', 'end'),
  ];
}

function peersOf(id: string): Array<{ name: string; factor: number }> {
  return PEERS.filter((peer) => peer.id === id).flatMap(({ bare, parse, directus }) => [
    { name: 'P', factor: bare / parse },
    { name: 'D', factor: bare / directus },
  ]);
}

function limit(value: number, y: number, dashes: string): string {
  return line(position(value), y - 8, position(value), y + 8, `class="limit"${dashes}`);
}

function gridLine(value: number, bottom: number): string[] {
  const x = position(value);
  return [
    line(x, TOP - 4, x, bottom, `class="${value === 1 ? 'bare' : 'grid'}"`),
    text(x, bottom + 16, value === 1 ? 'bare' : String(value), 'soft', 'middle'),
  ];
}

/** Ratios beyond the axis stand at its ends. */
function position(ratio: number): number {
  const within = Math.min(HIGHEST, Math.max(LOWEST, ratio));
  const share = Math.log(within / LOWEST) / Math.log(HIGHEST / LOWEST);
  return Math.round((LEFT + share * (WIDTH - LEFT - RIGHT)) * 10) / 10;
}

function line(x1: number, y1: number, x2: number, y2: number, more: string): string {
  return `  <line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${more}/>`;
}

function text(x: number, y: number, content: string, style: string, anchor = 'start'): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `  <text x="${x}" y="${y}" class="${style}" text-anchor="${anchor}">${escaped}</text>`;
}
