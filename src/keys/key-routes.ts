// The definitions of the routes that every kind of key has: list, issue, revoke. The kinds differ in schemas, access and
// summaries, and each has its own handlers.
// Contract: interface#credential-rules, decisions#keys.
import { type TProperties, type TSchema, Type } from '@sinclair/typebox';
import type { Access } from '../access/route-access.ts';
import { route } from '../http/route.ts';
import { Revoked } from '../http/schemas.ts';
import type { KeyTable } from './key-table.ts';

interface KeyRoutes<L extends Access, C extends Access, R extends Access, B extends TSchema> {
  tag: string;
  access: { list: L; create: C; revoke: R };
  /** The body that issues a key. */
  body: B;
  example?: unknown;
  /** The kind in summaries: with an article, and in the plural. */
  one: string;
  many: string;
  /** Whether the tenant has a limit of active keys of this kind. */
  isLimited?: boolean;
}

export const FOR_ADMINS = { list: 'admin', create: 'admin', revoke: 'admin' } as const;

export function keyRoutes<
  P extends TProperties,
  S extends TProperties,
  const L extends Access,
  const C extends Access,
  const R extends Access,
  B extends TSchema,
>(
  { name, schema, issuedSchema }: KeyTable<P, S>,
  { tag, access, body, example, one, many, isLimited }: KeyRoutes<L, C, R, B>,
) {
  return {
    LIST: route({
      id: `list${name}s`,
      tag,
      summary: `List ${many}`,
      access: access.list,
      ok: [200, Type.Array(schema)],
    }),
    CREATE: route({
      id: `create${name}`,
      tag,
      summary: `Issue ${one}`,
      access: access.create,
      body,
      ...(example === undefined ? {} : { example }),
      ok: [201, issuedSchema],
      errors: isLimited === true ? ['CONFLICT'] : [],
    }),
    REVOKE: route({
      id: `revoke${name}`,
      tag,
      summary: `Revoke ${one}`,
      access: access.revoke,
      ok: [200, Revoked],
    }),
  };
}
