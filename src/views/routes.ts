// The routes of views: their definitions, and records through them. Tenant admins write definitions; any
// credential of the tenant may list the views and records that its role may read.
// Contract: interface#views.

import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { Caller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { okBounded, okList } from '../http/bounded-response.ts';
import { addChangesCursor, CHANGES_CURSOR } from '../http/changes-cursor.ts';
import { DRY_RUN, type FindBreaks, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { parameters } from '../http/parameters.ts';
import { created, notModified, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { ListQuery, listInput, ReadQuery } from '../records/read/parameters.ts';
import { RecordPageSchema, RecordSchema } from '../records/record.ts';
import { isNamedIn } from '../records/row.ts';
import { listViewRecords, readViewRecord } from './records.ts';
import { NewView, ViewChange, ViewSchema } from './view.ts';
import { createView, definitionChangesOf, deleteView, listViews, updateView } from './views.ts';

const TAG = 'Views';
const VIEWS = '/api/views';
const VIEW = '/api/views/:slug';
const OUTDATED = 'For an administrator, `details` names the conditions that no longer fit the entity.';

const LIST = route({
  id: 'listViews',
  tag: TAG,
  summary: 'List the views that the caller may read',
  description:
    'A tenant admin sees all; others see those whose `view:<slug>` they may read, with the conditions they may see.',
  access: 'tenant',
  ok: [200, Type.Array(ViewSchema)],
});

const CREATE = route({
  id: 'createView',
  tag: TAG,
  summary: 'Create a view',
  access: 'admin',
  query: parameters(DRY_RUN),
  body: NewView,
  example: {
    entitySlug: 'deals',
    slug: 'my-open',
    name: 'My open deals',
    description: 'What is neither won nor lost, of those that I created',
    filterDsl: {
      validate: [{ condition: 'stage != won AND stage != lost' }, { condition: 'createdBy = $currentUser.id' }],
    },
  },
  ok: [201, ViewSchema],
  errors: ['NOT_FOUND', 'CONFLICT'],
});

const UPDATE = route({
  id: 'updateView',
  tag: TAG,
  summary: 'Change a view',
  access: 'admin',
  query: parameters(DRY_RUN),
  body: ViewChange,
  example: { name: 'Won deals', filterDsl: { validate: [{ condition: 'stage = won' }] } },
  pathExamples: { slug: 'won-deals' },
  ok: [200, ViewSchema],
});

const DELETE = route({
  id: 'deleteView',
  tag: TAG,
  summary: 'Delete a view',
  access: 'admin',
  query: parameters(DRY_RUN),
  ok: [200, Deleted],
});

/** Whether the caller may read any view. */
const mayCall = ({ rights }: Caller): boolean =>
  rights.isUnlimited || Object.keys(rights.permissions).some((resource) => resource.startsWith('view:'));

const LIST_RECORDS = route({
  pathExamples: { slug: 'won-deals' },
  mayCall,
  id: 'listViewRecords',
  tag: TAG,
  summary: 'List the records of a view',
  description: `Takes the parameters of a record list; the view's conditions always apply too. ${OUTDATED}`,
  access: 'tenant',
  query: ListQuery,
  ok: [200, RecordPageSchema],
  errors: ['CONFLICT'],
  responseHeaders: CHANGES_CURSOR,
});

const READ_RECORD = route({
  pathExamples: { slug: 'won-deals' },
  mayCall,
  id: 'getViewRecord',
  tag: TAG,
  summary: 'Get a record of a view',
  description: `A record that does not meet the view's conditions is not found. ${OUTDATED}`,
  access: 'tenant',
  query: ReadQuery,
  ok: [200, RecordSchema],
  errors: ['CONFLICT'],
  responseHeaders: { ETag: 'the version of the record; not sent with expanded relations', ...CHANGES_CURSOR },
  emptyResponses: { 304: 'The record still has the version that If-None-Match names.' },
  requestHeaders: ['If-None-Match'],
});

export function viewRoutes(app: App, findBreaks: FindBreaks) {
  return new Elysia({ name: 'views' })
    .use(guard(app))
    .get(VIEWS, async ({ caller }) => okList(await listViews(app, caller)), LIST)
    .post(
      VIEWS,
      async ({ caller, query, body }) =>
        runOrTry(app, { caller, query, findBreaks }, async (used) => created(await createView(used, caller, body))),
      CREATE,
    )
    .put(
      VIEW,
      async ({ caller, params, query, body }) =>
        runOrTry(app, { caller, query, findBreaks }, async (used) =>
          ok(await updateView(used, caller, params.slug, body)),
        ),
      UPDATE,
    )
    .delete(
      VIEW,
      async ({ caller, params, query }) =>
        runOrTry(app, { caller, query, findBreaks }, async (used) =>
          ok({ id: await deleteView(used, caller, params.slug), deleted: true }),
        ),
      DELETE,
    )
    .get(
      '/api/views/:slug/records',
      async ({ caller, params, query, request }) => {
        await addChangesCursor(app, caller, request, await definitionChangesOf(app, caller.tenant));
        return okBounded(await listViewRecords(app, caller, params.slug, listInput(query)));
      },
      LIST_RECORDS,
    )
    .get(
      '/api/views/:slug/records/:id',
      async ({ caller, params, query, request }) => {
        await addChangesCursor(app, caller, request, await definitionChangesOf(app, caller.tenant));
        const { record, etag } = await readViewRecord(app, caller, params.slug, params.id, query);
        if (etag !== null && isNamedIn(request.headers.get('if-none-match'), etag)) return notModified(etag);
        return okBounded(record, etag === null ? {} : { etag });
      },
      READ_RECORD,
    );
}
