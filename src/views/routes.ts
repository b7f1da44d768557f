// The routes of views: their definitions, and records through them. Definitions are written by tenant admins; both
// lists are open to any credential inside the tenant and show what its role may read.
// Contract: interface#views.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, nullable, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { ListQuery, listInput, ReadQuery, readInput } from '../records/read/parameters.ts';
import { notModified, RecordPageSchema, RecordSchema } from '../records/routes.ts';
import { isNamedIn } from '../records/shape.ts';
import type { JsonObject } from '../runtime/text.ts';
import { listViewRecords, readViewRecord } from './records.ts';
import { createView, deleteView, listViews, updateView } from './views.ts';

const FilterDslSchema = Type.Object(
  {
    validate: Type.Array(
      Type.Object({ condition: Type.String({ examples: ['status == "open" AND owner == $currentUser.id'] }) }),
      { description: 'conditions that all hold for the records of the view' },
    ),
  },
  { description: 'what a record must meet to stand in the view' },
);
const Definition = {
  entitySlug: Type.String({ description: 'the entity that the view shows', examples: ['task'] }),
  slug: Type.String({ description: 'its name in paths and, as `view:<slug>`, in permissions', examples: ['my-open'] }),
  name: Type.String({ examples: ['My open tasks'] }),
  description: nullable(Type.String()),
  filterDsl: FilterDslSchema,
};
const ViewSchema = Type.Object({ id: Uuid, ...Definition, createdAt: Timestamp, updatedAt: Timestamp });
const { entitySlug, slug, name, description, filterDsl } = Definition;
const NewView = Type.Object({
  entitySlug,
  slug,
  name,
  description: Type.Optional(description),
  filterDsl: Type.Optional(Type.Partial(filterDsl)),
});

const TAG = 'Views';
const VIEWS = '/api/views';
const VIEW = '/api/views/:slug';
const Params = t.Object({ slug: t.String() });
const Anything = t.Object({}, { additionalProperties: true });
const OUTDATED = 'An administrator sees in `details` which condition does not fit the entity any more.';

const LIST = {
  access: 'tenant',
  detail: describe({
    id: 'listViews',
    tag: TAG,
    summary: 'List the views that the caller may read',
    description:
      'A tenant admin sees all; others those whose `view:<slug>` they may read, with the conditions they may know.',
    ok: [200, Type.Array(ViewSchema)],
  }),
} as const;

const CREATE = {
  access: 'admin',
  json: true,
  body: Anything,
  detail: describe({
    id: 'createView',
    tag: TAG,
    summary: 'Create a view',
    ok: [201, ViewSchema],
    errors: ['NOT_FOUND', 'CONFLICT'],
    body: NewView,
  }),
} as const;

const UPDATE = {
  access: 'admin',
  json: true,
  params: Params,
  body: Anything,
  detail: describe({
    id: 'updateView',
    tag: TAG,
    summary: 'Change a view',
    ok: [200, ViewSchema],
    body: Type.Partial(NewView),
  }),
} as const;

const DELETE = {
  access: 'admin',
  params: Params,
  detail: describe({ id: 'deleteView', tag: TAG, summary: 'Delete a view', ok: [200, Deleted] }),
} as const;

const LIST_RECORDS = {
  access: 'tenant',
  params: Params,
  query: ListQuery,
  detail: describe({
    id: 'listViewRecords',
    tag: TAG,
    summary: 'List the records of a view',
    description: `Takes the parameters of every list of records; the view's own conditions always hold besides. ${OUTDATED}`,
    ok: [200, RecordPageSchema],
    errors: ['CONFLICT'],
  }),
} as const;

const READ_RECORD = {
  access: 'tenant',
  params: t.Object({ slug: t.String(), id: t.String() }),
  query: ReadQuery,
  detail: describe({
    id: 'getViewRecord',
    tag: TAG,
    summary: 'Get a record of a view',
    description: `A record that does not meet the view's conditions is not found. ${OUTDATED}`,
    ok: [200, RecordSchema],
    errors: ['CONFLICT'],
    headers: { ETag: 'the version of the record; not sent with expanded relations' },
    bare: { 304: 'The record still is what If-None-Match names.' },
    takes: ['If-None-Match'],
  }),
} as const;

export function viewRoutes(app: App) {
  return new Elysia({ name: 'views' })
    .use(guard(app))
    .get(VIEWS, async ({ caller }) => ok(await listViews(app, caller)), LIST)
    .post(VIEWS, async ({ caller, body }) => created(await createView(app, caller, body as JsonObject)), CREATE)
    .put(
      VIEW,
      async ({ caller, params, body }) => ok(await updateView(app, caller, params.slug, body as JsonObject)),
      UPDATE,
    )
    .delete(
      VIEW,
      async ({ caller, params }) => ok({ id: await deleteView(app, caller, params.slug), deleted: true }),
      DELETE,
    )
    .get(
      '/api/views/:slug/records',
      async ({ caller, params, query }) => ok(await listViewRecords(app, caller, params.slug, listInput(query))),
      LIST_RECORDS,
    )
    .get(
      '/api/views/:slug/records/:id',
      async ({ caller, params, query, request }) => {
        const { record, etag } = await readViewRecord(app, caller, params.slug, params.id, readInput(query));
        if (etag !== null && isNamedIn(request.headers.get('if-none-match'), etag)) return notModified(etag);
        return ok(record, etag === null ? {} : { etag });
      },
      READ_RECORD,
    );
}
