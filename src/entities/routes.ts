// The routes of entities and fields. Only tenant admins change definitions. A field change responds when it is complete,
// which takes as long as reading all records of the entity.
// Contract: decisions#entities, decisions#field-changes.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { guard } from '../http/guard.ts';
import { parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { EntityChange, EntitySchema, FieldInput, FieldPatch, FieldSchema, NewEntity } from './definition.ts';
import { createEntity, deleteEntity, getEntity, listEntities, updateEntity } from './entities.ts';
import { createField, deleteField, listFields, updateField } from './fields.ts';

const ENTITIES = '/api/entities';
const ENTITY = '/api/entities/:entityName';
const FIELDS = '/api/entities/:entityName/fields';
const FIELD = '/api/entities/:entityName/fields/:key';
const reading = { tag: 'Entities', access: 'tenant' } as const;
const changing = { tag: 'Entities', access: 'admin' } as const;
const confirm = (description: string) => parameters({ confirm: Type.Optional(Type.String({ description })) });

const LIST = route({ ...reading, id: 'listEntities', summary: 'List entities', ok: [200, Type.Array(EntitySchema)] });
const CREATE = route({
  ...changing,
  id: 'createEntity',
  summary: 'Create an entity',
  body: NewEntity,
  ok: [201, EntitySchema],
  errors: ['CONFLICT'],
});
const READ = route({ ...reading, id: 'getEntity', summary: 'Get an entity', ok: [200, EntitySchema] });
const UPDATE = route({
  ...changing,
  id: 'updateEntity',
  summary: 'Change label and description of an entity',
  body: EntityChange,
  example: { label: 'Companies', description: 'Who buys from us' },
  ok: [200, EntitySchema],
});
const DELETE = route({
  ...changing,
  id: 'deleteEntity',
  summary: 'Delete an entity',
  query: confirm('the entity’s name, when it has records'),
  ok: [200, Deleted],
  errors: ['CONFLICT'],
});
const LIST_FIELDS = route({
  ...reading,
  id: 'listFields',
  summary: 'List the fields of an entity',
  ok: [200, Type.Array(FieldSchema)],
});
const CREATE_FIELD = route({
  ...changing,
  id: 'createField',
  summary: 'Add a field to an entity',
  description: 'A required field of an entity with records needs a default, which existing records get.',
  body: FieldInput,
  ok: [201, FieldSchema],
  errors: ['CONFLICT'],
});
const UPDATE_FIELD = route({
  ...changing,
  id: 'updateField',
  summary: 'Change a field',
  description:
    'Changes the attributes given; null removes one. A change that stored records violate is a 409 with their count.',
  body: FieldPatch,
  example: { label: 'Country', description: 'where the company is registered', indexed: true },
  pathExamples: { key: 'country' },
  ok: [200, FieldSchema],
  errors: ['CONFLICT'],
});
const DELETE_FIELD = route({
  ...changing,
  id: 'deleteField',
  summary: 'Drop a field with its values',
  query: confirm('the field’s key, when records have a value'),
  ok: [200, Deleted],
  errors: ['CONFLICT'],
});

export function entityRoutes(app: App) {
  return new Elysia({ name: 'entities' })
    .use(guard(app))
    .get(ENTITIES, async ({ caller }) => okList(await listEntities(app, caller)), LIST)
    .post(ENTITIES, async ({ caller, body }) => created(await createEntity(app, caller, body)), CREATE)
    .get(ENTITY, async ({ caller, params }) => ok(await getEntity(app, caller, params.entityName)), READ)
    .patch(
      ENTITY,
      async ({ caller, params, body }) => ok(await updateEntity(app, caller, params.entityName, body)),
      UPDATE,
    )
    .delete(
      ENTITY,
      async ({ caller, params, query }) =>
        ok({ id: await deleteEntity(app, caller, params.entityName, query.confirm), deleted: true }),
      DELETE,
    )
    .get(FIELDS, async ({ caller, params }) => okList(await listFields(app, caller, params.entityName)), LIST_FIELDS)
    .post(
      FIELDS,
      async ({ caller, params, body }) => created(await createField(app, caller, params.entityName, body)),
      CREATE_FIELD,
    )
    .patch(
      FIELD,
      async ({ caller, params, body }) => ok(await updateField(app, caller, params.entityName, params.key, body)),
      UPDATE_FIELD,
    )
    .delete(
      FIELD,
      async ({ caller, params, query }) =>
        ok({ id: await deleteField(app, caller, params.entityName, params.key, query.confirm), deleted: true }),
      DELETE_FIELD,
    );
}
