// Converts TypeBox schemas to the plain JSON Schema that MCP clients receive: without ids, examples and the
// framework's own keywords, so that every client can read them. Pure.
// Contract: decisions#mcp.
import type { TSchema } from '@sinclair/typebox';

const DROPPED = new Set(['$id', 'error', 'keyError', 'examples']);

/** The schema without the keywords of the framework and the API document. */
export function plainSchema(schema: TSchema): Record<string, unknown> {
  return strip(JSON.parse(JSON.stringify(schema)), true) as Record<string, unknown>;
}

/** `isSchema` is false for a map from names to schemas, all of whose members are kept. */
function strip(node: unknown, isSchema: boolean): unknown {
  if (Array.isArray(node)) return node.map((item) => strip(item, true));
  if (node === null || typeof node !== 'object') return node;
  const asEnum = enumOf(node as Node);
  if (asEnum !== undefined) return asEnum;
  const kept = Object.entries(node).filter(([key]) => !isSchema || !DROPPED.has(key));
  return Object.fromEntries(
    kept.map(([key, value]) => [key, strip(value, !(isSchema && /^(patternP|p)roperties$/.test(key)))]),
  );
}

type Node = { anyOf?: { const?: unknown }[]; description?: string };

/** A union of string constants as an `enum`, which every client understands. */
function enumOf({ anyOf, description }: Node): object | undefined {
  const values = anyOf?.map((branch) => branch.const) ?? [];
  if (values.length === 0 || values.some((value) => typeof value !== 'string')) return undefined;
  return { type: 'string', enum: values, ...(description === undefined ? {} : { description }) };
}
