// Random JSON text for a schema of the API document: mostly fitting values, some at or beyond its limits, some hostile.
// Text, not values, because JSON text can say what values cannot: 1e400, half a surrogate pair, a repeated member.
// Sizes are characters.
import type { Random } from './random.ts';

// biome-ignore lint/suspicious/noExplicitAny: schemas are arbitrary JSON
export type Schema = any;

const DEPTH_MAX = 6;

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
];

export function hostile(random: Random): string {
  return random.pick(HOSTILE)(random);
}

/** JSON text for a schema; `document` resolves its references, `known` are names and ids that exist. */
export function jsonFor(random: Random, schema: Schema, document: Schema, known: readonly string[], depth = 0): string {
  if (depth > DEPTH_MAX || schema === undefined || schema === true || random.chance(0.06)) return hostile(random);
  if (schema.$ref !== undefined) {
    return jsonFor(random, resolved(schema.$ref, document), document, known, depth);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return JSON.stringify(random.pick(schema.enum));
  if (Array.isArray(schema.examples) && schema.examples.length > 0 && random.chance(0.4)) {
    return JSON.stringify(random.pick(schema.examples));
  }
  const branches = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (Array.isArray(branches)) return jsonFor(random, random.pick(branches), document, known, depth + 1);
  const type = Array.isArray(schema.type) ? random.pick<string>(schema.type) : schema.type;
  if (type === 'object') return objectFor(random, schema, document, known, depth);
  if (type === 'array') {
    const items = Array.from({ length: random.below(4) }, () =>
      jsonFor(random, schema.items, document, known, depth + 1),
    );
    return `[${items.join(',')}]`;
  }
  return scalarFor(random, schema, type, known);
}

function resolved(reference: string, document: Schema): Schema {
  const names = reference.slice(2).split('/');
  return names.reduce((at: Schema, name) => at?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], document);
}

function objectFor(random: Random, schema: Schema, document: Schema, known: readonly string[], depth: number): string {
  const members: string[] = [];
  for (const [name, member] of Object.entries<Schema>(schema.properties ?? {})) {
    const isWanted = schema.required?.includes(name) ? !random.chance(0.05) : random.chance(0.45);
    if (isWanted) members.push(`${JSON.stringify(name)}:${jsonFor(random, member, document, known, depth + 1)}`);
  }
  const others = Object.values<Schema>(schema.patternProperties ?? {})[0] ?? schema.additionalProperties;
  if (others !== undefined && others !== false) {
    for (let i = random.below(3); i > 0; i--) {
      const value = jsonFor(random, others === true ? {} : others, document, known, depth + 1);
      members.push(`${JSON.stringify(random.chance(0.8) && known.length > 0 ? random.pick(known) : '*')}:${value}`);
    }
  }
  if (random.chance(0.05)) members.push(`"unknown":${hostile(random)}`);
  return `{${members.join(',')}}`;
}

function scalarFor(random: Random, schema: Schema, type: string | undefined, known: readonly string[]): string {
  if (type === 'boolean') return random.pick(['true', 'false']);
  if (type === 'null') return 'null';
  if (type === 'integer' || type === 'number') {
    const [least, most] = [schema.minimum ?? 0, schema.maximum ?? 1_000];
    return String(random.pick([least, most, least - 1, most + 1, Math.floor(random.next() * most)]));
  }
  if (type !== 'string') return random.chance(0.5) ? hostile(random) : JSON.stringify(random.below(1_000));
  if (known.length > 0 && random.chance(0.5)) return JSON.stringify(random.pick(known));
  const [least, most] = [schema.minLength ?? 0, schema.maxLength ?? 40];
  return JSON.stringify(
    'aé '.repeat(random.pick([least, most, most + 1, 5])).slice(0, random.pick([least, most, most + 1, 8])),
  );
}
