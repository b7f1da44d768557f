// The contrasts of the console's colours, computed from console/styles/tokens.css for both themes: text at least 4.5, the
// borders of controls and the focus at least 3. Contract: interface#console.
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './support/source.ts';

const css = readFileSync(join(ROOT, 'console/styles/tokens.css'), 'utf8');

/** Each colour is defined once, light and dark beside each other. */
const pairs = [...css.matchAll(/--([\w-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/g)];
const themes = [2, 3].map((at) => Object.fromEntries(pairs.map((pair) => [pair[1] as string, pair[at] as string])));

const TEXT: readonly [text: string, ...on: string[]][] = [
  ['text', 'bg', 'sub', 'raise', 'sel', 'hover'],
  ['dim', 'bg', 'sub', 'raise', 'sel', 'hover'],
  ['accent', 'bg', 'sub', 'raise'],
  ['on-accent', 'accent', 'accent-hover'],
  ['ok', 'bg', 'ok-bg'],
  ['warn', 'bg', 'warn-bg'],
  ['bad', 'bg', 'sub', 'bad-bg'],
  ['on-danger', 'danger'],
];
const SHAPES: typeof TEXT = [['ctl', 'bg', 'sub', 'raise']];

function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

test('each colour is stated once, for both themes, and nothing else depends on the theme', () => {
  const used = new Set([...TEXT, ...SHAPES].flat());
  expect([...used].filter((name) => !(name in (themes[0] as object)))).toEqual([]);
  expect(css).not.toContain('prefers-color-scheme');
  expect(pairs.length).toBe(new Set(pairs.map(([, name]) => name)).size);
});

test('text and controls have enough contrast on every surface on which they appear', () => {
  const low = themes.flatMap((theme, at) =>
    [TEXT, SHAPES].flatMap((rules, kind) =>
      rules.flatMap(([front, ...surfaces]) =>
        surfaces
          .map((surface) => [surface, contrast(theme[front] as string, theme[surface] as string)] as const)
          .filter(([, ratio]) => !(ratio >= (kind === 0 ? 4.5 : 3)))
          .map(([surface, ratio]) => `${at === 0 ? 'light' : 'dark'}: ${front} on ${surface} ${ratio.toFixed(1)}`),
      ),
    ),
  );
  expect(low).toEqual([]);
});
