// The routes of an entity's fields. Bodies are open objects here: the operations check the attributes
// and name every problem at once. A change answers when it is done, which on a large entity takes as
// long as its records take to be read. Contract: decisions#fields.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, open } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import type { JsonObject } from '../runtime/text.ts';
import { createField, deleteField, listFields, updateField } from './fields.ts';
import { FieldChange, FieldInput, FieldSchema } from './routes.ts';

const TAG = 'Entities';
const OfEntity = t.Object({ entityName: t.String() });
const OfField = t.Object({ entityName: t.String(), key: t.String() });
const Anything = t.Object({}, { additionalProperties: true });

const LIST = describe({
  id: 'listFields',
  tag: TAG,
  summary: 'List the fields of an entity',
  ok: [200, Type.Array(FieldSchema)],
  errors: ['NOT_FOUND'],
});

const CREATE = describe({
  id: 'createField',
  tag: TAG,
  summary: 'Add a field to an entity',
  description: 'Adds a field. A required one needs a default where records exist, which are filled with it.',
  ok: [201, FieldSchema],
  body: FieldInput,
  errors: ['VALIDATION_ERROR', 'NOT_FOUND', 'CONFLICT'],
});

const UPDATE = describe({
  id: 'updateField',
  tag: TAG,
  summary: 'Change a field',
  description:
    'Changes the attributes given; null takes one away. What stored records break is refused with their counts.',
  ok: [200, FieldSchema],
  body: FieldChange,
  errors: ['VALIDATION_ERROR', 'NOT_FOUND', 'CONFLICT'],
});

const DELETE = describe({
  id: 'deleteField',
  tag: TAG,
  summary: 'Drop a field with its values',
  ok: [200, Deleted],
  errors: ['VALIDATION_ERROR', 'NOT_FOUND', 'CONFLICT'],
});

const Confirm = open({ confirm: t.Optional(t.String({ description: 'the field’s key, when records have a value' })) });

export function fieldRoutes(app: App) {
  const json = app.config.maxBodyBytes;
  return new Elysia({ name: 'fields' })
    .use(guard(app))
    .get(
      '/api/entities/:entityName/fields',
      async ({ caller, params }) => ok(await listFields(app, caller, params.entityName)),
      { access: 'tenant', params: OfEntity, detail: LIST },
    )
    .post(
      '/api/entities/:entityName/fields',
      async ({ caller, params, body }) =>
        created(await createField(app, caller, params.entityName, body as JsonObject)),
      { access: 'admin', json, params: OfEntity, body: Anything, detail: CREATE },
    )
    .patch(
      '/api/entities/:entityName/fields/:key',
      async ({ caller, params, body }) =>
        ok(await updateField(app, caller, params.entityName, params.key, body as JsonObject)),
      { access: 'admin', json, params: OfField, body: Anything, detail: UPDATE },
    )
    .delete(
      '/api/entities/:entityName/fields/:key',
      async ({ caller, params, query }) =>
        ok({ id: await deleteField(app, caller, params.entityName, params.key, query.confirm), deleted: true }),
      { access: 'admin', params: OfField, query: Confirm, detail: DELETE },
    );
}
