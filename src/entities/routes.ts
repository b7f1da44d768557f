// The routes of entities, and the shapes of entities and fields in the API document. Bodies are
// checked by the operations, which name every fault at once. Definitions are changed by tenant admins.
// Contract: decisions#entities.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, nullable, open, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { createEntity, deleteEntity, getEntity, listEntities, updateEntity } from './entities.ts';
import { NAME_PATTERN } from './field-input.ts';
import { FIELD_TYPE_NAMES } from './field-types.ts';

const FieldAttributes = {
  key: Type.String({ description: 'the name in records' }),
  type: Type.Union(FIELD_TYPE_NAMES.map((type) => Type.Literal(type))),
  label: Type.Optional(nullable(Type.String())),
  description: Type.Optional(nullable(Type.String())),
  required: Type.Optional(Type.Boolean()),
  unique: Type.Optional(Type.Boolean()),
  indexed: Type.Optional(Type.Boolean()),
  default: Type.Optional(Type.Unknown()),
  min: Type.Optional(Type.Union([Type.Number(), Type.String()])),
  max: Type.Optional(Type.Union([Type.Number(), Type.String()])),
  minLength: Type.Optional(Type.Integer({ minimum: 0 })),
  maxLength: Type.Optional(Type.Integer({ minimum: 0 })),
  pattern: Type.Optional(Type.String({ description: 'RE2 syntax, searched anywhere in the value' })),
  options: Type.Optional(Type.Array(Type.String())),
  entity: Type.Optional(Type.String({ description: 'the target of a relation' })),
  onDelete: Type.Optional(Type.Union([Type.Literal('restrict'), Type.Literal('set_null'), Type.Literal('cascade')])),
};

const FIELD_EXAMPLE = { key: 'status', type: 'select', label: 'Status', options: ['open', 'closed'], indexed: true };

export const FieldSchema = Type.Object(
  { id: Uuid, ...FieldAttributes },
  { $id: 'Field', examples: [{ id: '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f', ...FIELD_EXAMPLE }] },
);
/** A field in a request; the operation itself checks the attributes and names every problem. */
export const FieldInput = Type.Object(FieldAttributes, { $id: 'FieldInput', examples: [FIELD_EXAMPLE] });

const { key, type, default: fallback, ...rules } = FieldAttributes;
/** A change of a field: `null` takes an attribute away. */
export const FieldChange = Type.Object(
  {
    key: Type.Optional(key),
    type: Type.Optional(type),
    default: fallback,
    ...Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, Type.Optional(nullable(rule))])),
  },
  { $id: 'FieldChange', examples: [{ label: 'State', required: false, options: ['open', 'closed', 'waiting'] }] },
);

export const EntitySchema = Type.Object(
  {
    id: Uuid,
    name: Type.String({ examples: ['tickets'] }),
    label: nullable(Type.String({ examples: ['Tickets'] })),
    description: nullable(Type.String({ examples: ['What customers ask for'] })),
    isSystem: Type.Boolean({ examples: [false] }),
    fields: Type.Array(FieldSchema),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { $id: 'Entity' },
);

const Words = {
  label: Type.Optional(nullable(Type.String({ maxLength: LIMITS.entity.labelMax, examples: ['Tickets'] }))),
  description: Type.Optional(
    nullable(Type.String({ maxLength: LIMITS.entity.descriptionMax, examples: ['What customers ask for'] })),
  ),
};
/** The fields that the examples of records have. */
const FIELDS_EXAMPLE = [
  { key: 'title', type: 'text', required: true },
  FIELD_EXAMPLE,
  { key: 'amount', type: 'number', min: 0 },
];
const NewEntity = Type.Object(
  {
    name: Type.String({ pattern: NAME_PATTERN.source, examples: ['tickets'] }),
    ...Words,
    fields: Type.Optional(Type.Array(FieldInput, { maxItems: LIMITS.entity.fieldsMax, examples: [FIELDS_EXAMPLE] })),
  },
  { $id: 'NewEntity' },
);
const EntityChange = Type.Object(Words, { $id: 'EntityChange' });

const TAG = 'Entities';
const Params = t.Object({ entityName: t.String() });
const Anything = t.Object({}, { additionalProperties: true });

const LIST = {
  access: 'tenant',
  detail: describe({ id: 'listEntities', tag: TAG, summary: 'List entities', ok: [200, Type.Array(EntitySchema)] }),
} as const;

const CREATE = {
  access: 'admin',
  json: true,
  body: Anything,
  detail: describe({
    id: 'createEntity',
    tag: TAG,
    summary: 'Create an entity',
    body: NewEntity,
    ok: [201, EntitySchema],
    errors: ['CONFLICT'],
  }),
} as const;

const READ = {
  access: 'tenant',
  params: Params,
  detail: describe({ id: 'getEntity', tag: TAG, summary: 'Get an entity', ok: [200, EntitySchema] }),
} as const;

const UPDATE = {
  access: 'admin',
  json: true,
  params: Params,
  body: Anything,
  detail: describe({
    id: 'updateEntity',
    tag: TAG,
    summary: 'Change label and description of an entity',
    body: EntityChange,
    ok: [200, EntitySchema],
  }),
} as const;

const DELETE = {
  access: 'admin',
  params: Params,
  query: open({ confirm: t.Optional(t.String({ description: 'the entity’s name, when it has records' })) }),
  detail: describe({
    id: 'deleteEntity',
    tag: TAG,
    summary: 'Delete an entity',
    ok: [200, Deleted],
    errors: ['CONFLICT'],
  }),
} as const;

const ENTITIES = '/api/entities';
const ENTITY = '/api/entities/:entityName';

export function entityRoutes(app: App) {
  return new Elysia({ name: 'entities' })
    .use(guard(app))
    .get(ENTITIES, async ({ caller }) => ok(await listEntities(app, caller)), LIST)
    .post(ENTITIES, async ({ caller, body }) => created(await createEntity(app, caller, body as JsonObject)), CREATE)
    .get(ENTITY, async ({ caller, params }) => ok(await getEntity(app, caller, params.entityName)), READ)
    .patch(
      ENTITY,
      async ({ caller, params, body }) => ok(await updateEntity(app, caller, params.entityName, body as JsonObject)),
      UPDATE,
    )
    .delete(
      ENTITY,
      async ({ caller, params, query }) =>
        ok({ id: await deleteEntity(app, caller, params.entityName, query.confirm), deleted: true }),
      DELETE,
    );
}
