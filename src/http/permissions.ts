// Schemas of permissions, as roles, platform APIs and bots write them: operations by resource, which is an
// entity by name, `view:<slug>` or `agent:<bot name>`. Whether an entity exists is for the operation to say.
// Contract: interface#platform-key, interface#bot, decisions#roles.
import { type TSchema, type TUnsafe, Type } from '@sinclair/typebox';
import { OPERATIONS, RESOURCE, RESOURCE_OR_WILDCARD } from '../access/rights.ts';
import { oneOf } from './schemas.ts';

/** Different operations. */
export const Operations = Type.Array(oneOf(OPERATIONS), {
  uniqueItems: true,
  error: `must be a list of different operations out of ${OPERATIONS.join(', ')}`,
});

/** Values by resource, `*` and `view:*` among them. */
export function byResource<T extends TSchema>(value: T, options: Readonly<Record<string, unknown>> = {}) {
  return keyed(RESOURCE_OR_WILDCARD, value, 'is not an entity, view:<slug>, agent:<name>, * or view:*', options);
}

/** Values by resource, each named outright. */
export function byNamedResource<T extends TSchema>(value: T, options: Readonly<Record<string, unknown>> = {}) {
  return keyed(RESOURCE, value, 'is not an entity, view:<slug> or agent:<name>; wildcards are not accepted', options);
}

function keyed<T extends TSchema>(key: RegExp, value: T, keyError: string, options: object) {
  const schema = { additionalProperties: false, keyError, ...options };
  return Type.Record(Type.String({ pattern: key.source }), value, schema) as unknown as TUnsafe<
    Record<string, T['static']>
  >;
}
