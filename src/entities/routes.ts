// The routes of entities and fields. Only tenant admins change definitions. A field change responds when it is complete,
// which takes as long as reading all records of the entity.
// Contract: decisions#entities, decisions#field-changes.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { DRY_RUN, type FindBreaks, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { parameters } from '../http/parameters.ts';
import { created, type Envelope, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { EntityChange, EntitySchema, FieldInput, FieldPatch, FieldSchema, NewEntity } from './definition.ts';
import { createEntity, deleteEntity, getEntity, listEntities } from './entities.ts';
import { updateEntity } from './entity-changes.ts';
import { createField, deleteField, listFields, updateField } from './fields.ts';

const ENTITIES = '/api/entities';
const ENTITY = '/api/entities/:entityName';
const FIELDS = '/api/entities/:entityName/fields';
const FIELD = '/api/entities/:entityName/fields/:key';
const reading = { tag: 'Entities', access: 'tenant' } as const;
const changing = { tag: 'Entities', access: 'admin' } as const;
const confirm = (description: string) =>
  parameters({ confirm: Type.Optional(Type.String({ description })), ...DRY_RUN });

const LIST = route({ ...reading, id: 'listEntities', summary: 'List entities', ok: [200, Type.Array(EntitySchema)] });
const CREATE = route({
  ...changing,
  id: 'createEntity',
  summary: 'Create an entity',
  query: parameters(DRY_RUN),
  body: NewEntity,
  ok: [201, EntitySchema],
  errors: ['CONFLICT'],
});
const READ = route({ ...reading, id: 'getEntity', summary: 'Get an entity', ok: [200, EntitySchema] });
const UPDATE = route({
  ...changing,
  id: 'updateEntity',
  summary: 'Change an entity’s label, description, search and indexes',
  description: `\`indexes\` replaces all of them; new ones are built while records are read and written, and the response comes when
they are ready. With \`searchFolding\` the search terms of all records are rebuilt in the background, while records are read and
written; until that is done, \`search\` finds words with exactly the accents of the query.`,
  query: parameters(DRY_RUN),
  body: EntityChange,
  example: { label: 'Companies', description: 'Who buys from us' },
  ok: [200, EntitySchema],
  errors: ['CONFLICT'],
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
  query: parameters(DRY_RUN),
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
  query: parameters(DRY_RUN),
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

export function entityRoutes(app: App, findBreaks: FindBreaks) {
  /** Runs a change of a definition as long work: it may scan or rewrite stored values, and drops are done in parts. */
  const change = <T>(
    { caller, query, request }: { caller: TenantCaller; query: { dryRun?: boolean }; request: Request },
    run: (used: App) => Promise<Envelope<T>>,
  ): Promise<Envelope<T>> =>
    mayTakeLong(app, request, () => runOrTry(app, { caller, query, isSlow: true, findBreaks }, run));
  return new Elysia({ name: 'entities' })
    .use(guard(app))
    .get(ENTITIES, async ({ caller }) => okList(await listEntities(app, caller)), LIST)
    .post(
      ENTITIES,
      async ({ caller, query, body, request }) =>
        change({ caller, query, request }, async (used) => created(await createEntity(used, caller, body))),
      CREATE,
    )
    .get(ENTITY, async ({ caller, params }) => ok(await getEntity(app, caller, params.entityName)), READ)
    .patch(
      ENTITY,
      async ({ caller, params, query, body, request }) =>
        change({ caller, query, request }, async (used) =>
          ok(await updateEntity(used, caller, params.entityName, body)),
        ),
      UPDATE,
    )
    .delete(
      ENTITY,
      async ({ caller, params, query, request }) =>
        change({ caller, query, request }, async (used) =>
          ok({ id: await deleteEntity(used, caller, params.entityName, query.confirm), deleted: true }),
        ),
      DELETE,
    )
    .get(FIELDS, async ({ caller, params }) => okList(await listFields(app, caller, params.entityName)), LIST_FIELDS)
    .post(
      FIELDS,
      async ({ caller, params, query, body, request }) =>
        change({ caller, query, request }, async (used) =>
          created(await createField(used, caller, params.entityName, body)),
        ),
      CREATE_FIELD,
    )
    .patch(
      FIELD,
      async ({ caller, params, query, body, request }) =>
        change({ caller, query, request }, async (used) =>
          ok(await updateField(used, caller, params.entityName, params.key, body)),
        ),
      UPDATE_FIELD,
    )
    .delete(
      FIELD,
      async ({ caller, params, query, request }) =>
        change({ caller, query, request }, async (used) =>
          ok({ id: await deleteField(used, caller, params.entityName, params.key, query.confirm), deleted: true }),
        ),
      DELETE_FIELD,
    );
}
