// Derives example values from schemas: a schema's own `examples`, else the simplest value that its keywords
// allow, so that every operation shows a request and a response. A test validates each against its schema; a
// schema with a pattern needs its own example. Pure.
import type { JsonSchema } from './schema.ts';

const REF = '#/components/schemas/';

/** An example of the schema; `name` is the default for a string. */
export function exampleOf(schema: unknown, components: Record<string, JsonSchema>, name = 'text'): unknown {
  if (typeof schema !== 'object' || schema === null) return name;
  const own = schema as JsonSchema;
  if (typeof own.$ref === 'string') return exampleOf(components[own.$ref.slice(REF.length)], components, name);
  const stated = statedExample(own);
  if (stated !== undefined) return stated;
  if (Array.isArray(own.allOf)) return Object.assign({}, ...own.allOf.map((part) => exampleOf(part, components, name)));
  const branches = (own.anyOf ?? own.oneOf) as JsonSchema[] | undefined;
  if (branches !== undefined) return exampleOf(branches[0], components, name);
  if (own.type === 'array') return [exampleOf(own.items, components, name)];
  if (own.type === 'object') return objectExample(own, components);
  return scalarExample(own, name);
}

function statedExample({ examples, const: constant, enum: values, default: fallback }: JsonSchema): unknown {
  if (Array.isArray(examples)) return examples[0];
  if (constant !== undefined) return constant;
  if (fallback !== undefined) return fallback;
  return Array.isArray(values) ? values[0] : undefined;
}

function objectExample(schema: JsonSchema, components: Record<string, JsonSchema>): JsonSchema {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>).filter(
    ([, value]) => value.readOnly !== true,
  );
  return Object.fromEntries(properties.map(([key, value]) => [key, exampleOf(value, components, key)]));
}

const FORMATS: Readonly<Record<string, string>> = {
  uri: 'https://acme.test/path',
  email: 'ada@acme.test',
  uuid: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f',
  date: '2026-03-01',
  'date-time': '2026-03-01T09:30:00.000Z',
};

function scalarExample({ type, minimum, minLength, format }: JsonSchema, name: string): unknown {
  if (typeof format === 'string' && FORMATS[format] !== undefined) return FORMATS[format];
  if (type === 'integer' || type === 'number') return minimum ?? 1;
  if (type === 'boolean') return true;
  if (type === 'null') return null;
  return name.padEnd(Number(minLength ?? 0), '-');
}
