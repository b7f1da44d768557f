// Translates TypeBox schemas to JSON Schema 2020-12 for the document: removes the service's own keywords,
// turns unions of literals into enums, and moves schemas with an `$id` to the components.
// Pure, except for the components that it collects.
import type { TSchema } from '@sinclair/typebox';

export type JsonSchema = { [key: string]: unknown };

/** Keywords that hold a map of schemas, a list of them, or one. */
const MAPS = new Set(['properties', 'patternProperties', '$defs']);
const LISTS = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems']);
const SINGLES = new Set(['items', 'additionalProperties', 'not', 'contains', 'propertyNames']);
/** Keywords to drop: `error` and `keyError` are messages, and `$id` has become the component's name. */
const DROPPED = new Set(['error', 'keyError', '$id']);
const ANY_NAME = '^(.*)$';

/** The named schemas of one document, collected during translation. */
export class Schemas {
  readonly components: Record<string, JsonSchema> = {};

  /** The schema for the document. Throws when two different schemas have one `$id`. */
  of(schema: TSchema): JsonSchema {
    return this.translate(schema as unknown as JsonSchema);
  }

  private translate(schema: JsonSchema): JsonSchema {
    const plain = this.plain(schema);
    if (typeof schema.$id !== 'string') return plain;
    const known = this.components[schema.$id];
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(plain)) {
      throw new Error(`two different schemas are named ${schema.$id}`);
    }
    this.components[schema.$id] = plain;
    return { $ref: `#/components/schemas/${schema.$id}` };
  }

  private plain(schema: JsonSchema): JsonSchema {
    const literals = literalsOf(schema);
    if (literals !== undefined) return literals;
    const plain: JsonSchema = {};
    for (const [key, value] of Object.entries(schema)) {
      if (!DROPPED.has(key)) plain[key] = this.keyword(key, value);
    }
    return asMap(plain);
  }

  private keyword(key: string, value: unknown): unknown {
    if (MAPS.has(key)) {
      return Object.fromEntries(Object.entries(value as JsonSchema).map(([name, of]) => [name, this.inner(of)]));
    }
    if (LISTS.has(key)) return (value as unknown[]).map((of) => this.inner(of));
    return SINGLES.has(key) ? this.inner(value) : value;
  }

  /** `true` and `false` are schemas too. */
  private inner(schema: unknown): unknown {
    return typeof schema === 'object' && schema !== null ? this.translate(schema as JsonSchema) : schema;
  }
}

/** A union of literals as an enum; undefined for anything else. */
function literalsOf({ anyOf, error: _, $id: __, ...rest }: JsonSchema): JsonSchema | undefined {
  if (!Array.isArray(anyOf) || anyOf.length === 0) return undefined;
  const values = anyOf.map((branch: JsonSchema) => branch.const);
  const type = typeof values[0];
  if (values.some((value) => value === undefined || typeof value !== type)) return undefined;
  return { type, enum: values, ...rest };
}

/** TypeBox's record with arbitrary keys, as `additionalProperties`. */
function asMap(schema: JsonSchema): JsonSchema {
  const { patternProperties, ...rest } = schema;
  const value = (patternProperties as JsonSchema | undefined)?.[ANY_NAME];
  return value === undefined ? schema : { ...rest, additionalProperties: value };
}
