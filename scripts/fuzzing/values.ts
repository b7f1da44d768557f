// Random JSON text for a schema of the API document: mostly fitting values, some at or beyond its limits, some hostile.
// Text, not values, because JSON text can say what values cannot: 1e400, half a surrogate pair, a repeated member.
// Sizes are characters.
import { hinted } from './hints.ts';
import type { Schema } from './json.ts';
import type { Names } from './names.ts';
import type { Random } from './random.ts';

const DEPTH_MAX = 6;
/** At and beyond limits of the contract. */
const LENGTHS = [1, 100, 101, 200, 201, 255, 256, 640, 641, 1_000, 8_192, 10_000, 16_384, 65_536, 300_000];

/** JSON texts that tend to break services. */
const HOSTILE: readonly ((random: Random) => string)[] = [
  () => '""',
  () => 'null',
  () => '{}',
  () => '[]',
  () => 'true',
  () => '-1',
  () => '0.1',
  () => '1e400',
  () => '-1e-400',
  () => '9007199254740993',
  () => '123456789012345678901234567890',
  () => '"\\u0000"',
  () => '"\\ud800"',
  () => '"\\u202e\\ufeff"',
  () => '{"__proto__":{"x":1}}',
  () => '{"a":1,"a":2}',
  () => '"constructor"',
  () => `"'; drop table records; --"`,
  () => '"{{title}} {{n}}"',
  () => '"%00%ff/../..\\\\"',
  () => '"(a = \\"b\\" AND (c > 1 OR NOT d CONTAINS \\"e\\"))"',
  (random) => JSON.stringify('x'.repeat(random.pick([255, 1_000, 10_001, 70_000]))),
  (random) => JSON.stringify(`a${'\u0301\u0316'.repeat(random.pick([100, 5_000, 20_000]))}`),
  (random) => JSON.stringify('('.repeat(random.pick([50, 5_000]))),
  (random) => '['.repeat(random.pick([31, 40])).padEnd(80, ']'),
  (random) => `[${'{},'.repeat(random.pick([100, 2_000]))}1]`,
  // Small as JSON, large in a store or in another form.
  (random) => `[${'1e308,'.repeat(random.pick([1, 100, 20_000]))}1e-308]`,
  (random) => JSON.stringify('\ufdfa'.repeat(random.pick([10, 1_000, 20_000]))),
  (random) => JSON.stringify('\u0130\u00df\u1e9e'.repeat(random.pick([10, 600, 10_000]))),
  (random) => JSON.stringify(Array.from({ length: random.pick([10, 3_000]) }, (_, i) => `w${i}`).join(' ')),
];

/** Of the types that fields have. */
const VALUES =
  '"a" "a@example.com" "https://a.example/" "01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f" 7 0.5 "12.50" true "2026-01-31" "2026-01-31T09:00:00Z" ["a"] {"a":1} null'.split(
    ' ',
  );

/** A value for a field of any type. */
export function fieldValue(random: Random): string {
  return random.chance(0.2) ? hostile(random) : random.pick(VALUES);
}

export function hostile(random: Random): string {
  return random.pick(HOSTILE)(random);
}

/** JSON text for a schema; `document` resolves its references, `names` are those of things that exist. */
export function jsonFor(random: Random, schema: Schema, document: Schema, names: Names, depth = 0): string {
  if (depth > DEPTH_MAX || schema === undefined || schema === true || random.chance(0.06)) return hostile(random);
  if (schema.$ref !== undefined) {
    return jsonFor(random, resolved(schema.$ref, document), document, names, depth);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return JSON.stringify(random.pick(schema.enum));
  if (Array.isArray(schema.examples) && schema.examples.length > 0 && random.chance(0.4)) {
    return JSON.stringify(random.pick(schema.examples));
  }
  const branches = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (Array.isArray(branches)) return jsonFor(random, random.pick(branches), document, names, depth + 1);
  const type = Array.isArray(schema.type) ? random.pick<string>(schema.type) : schema.type;
  if (type === 'object') return objectFor(random, schema, document, names, depth);
  if (type === 'array') {
    const items = Array.from({ length: random.below(4) }, () =>
      jsonFor(random, schema.items, document, names, depth + 1),
    );
    return `[${items.join(',')}]`;
  }
  return scalarFor(random, schema, type, names);
}

/** Hints are texts: they fit no list and no object. */
const isList = (schema: Schema): boolean => ['array', 'object'].includes(schema?.type) || schema?.$ref !== undefined;

/** The JSON text of a value of which one part is replaced: by a hostile one, a name, one at or beyond a limit. */
export function mutated(random: Random, value: Schema, names: Names): string {
  let left = random.below(count(value));
  const text = (part: Schema): string => {
    if (left-- === 0) return replacement(random, part, names);
    if (Array.isArray(part)) return `[${part.map(text).join(',')}]`;
    if (part === null || typeof part !== 'object') return JSON.stringify(part);
    return `{${Object.entries(part)
      .map(([name, member]) => `${JSON.stringify(name)}:${text(member)}`)
      .join(',')}}`;
  };
  return text(value);
}

function count(value: Schema): number {
  if (value === null || typeof value !== 'object') return 1;
  return Object.values(value).reduce((sum: number, part) => sum + count(part), 1);
}

function replacement(random: Random, part: Schema, names: Names): string {
  if (random.chance(0.35)) return hostile(random);
  if (typeof part === 'number') return random.pick(['0', '-1', String(part + 1), '1e15', '2147483648', 'null']);
  if (typeof part === 'string' && random.chance(0.4)) {
    return JSON.stringify('aé'.repeat(200_000).slice(0, random.pick(LENGTHS)));
  }
  return JSON.stringify(random.chance(0.8) ? names.word(random) : null);
}

function resolved(reference: string, document: Schema): Schema {
  const steps = reference.slice(2).split('/');
  return steps.reduce((at: Schema, name) => at?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], document);
}

function objectFor(random: Random, schema: Schema, document: Schema, names: Names, depth: number): string {
  const members: string[] = [];
  for (const [name, member] of Object.entries<Schema>(schema.properties ?? {})) {
    const isWanted = schema.required?.includes(name) ? !random.chance(0.05) : random.chance(0.45);
    if (!isWanted) continue;
    const hint = random.chance(0.7) && !isList(member) ? hinted(random, name, names) : undefined;
    const value = hint === undefined ? jsonFor(random, member, document, names, depth + 1) : JSON.stringify(hint);
    members.push(`${JSON.stringify(name)}:${value}`);
  }
  const others = Object.values<Schema>(schema.patternProperties ?? {})[0] ?? schema.additionalProperties;
  if (others !== undefined && others !== false) {
    for (let i = random.below(3); i > 0; i--) {
      const value = jsonFor(random, others === true ? {} : others, document, names, depth + 1);
      members.push(`${JSON.stringify(random.chance(0.8) ? names.word(random) : '*')}:${value}`);
    }
  }
  if (random.chance(0.05)) members.push(`"unknown":${hostile(random)}`);
  return `{${members.join(',')}}`;
}

function scalarFor(random: Random, schema: Schema, type: string | undefined, names: Names): string {
  if (type === 'boolean') return random.pick(['true', 'false']);
  if (type === 'null') return 'null';
  if (type === 'integer' || type === 'number') {
    const [least, most] = [schema.minimum ?? 0, schema.maximum ?? 1_000];
    return String(random.pick([least, most, least - 1, most + 1, Math.floor(random.next() * most)]));
  }
  if (type !== 'string') return random.chance(0.5) ? hostile(random) : JSON.stringify(random.below(1_000));
  if (random.chance(0.5)) return JSON.stringify(names.word(random));
  const [least, most] = [schema.minLength ?? 0, schema.maxLength ?? 40];
  return JSON.stringify(
    'aé '.repeat(random.pick([least, most, most + 1, 5])).slice(0, random.pick([least, most, most + 1, 8])),
  );
}
