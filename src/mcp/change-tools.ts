// The MCP tools for changes, of the feed and of one record, which call the same operations as REST. They do not wait for
// changes: an agent calls again.
// Failures: those of the operations: 400, 403, 404, 409, 410.
// Contract: feed#the-feed, history#history, decisions#mcp.
import { Type } from '@sinclair/typebox';
import { readChanges } from '../changes/changes.ts';
import { followerOf } from '../changes/follower.ts';
import { ChangesPageSchema } from '../changes/item.ts';
import { HistorySchema, readHistory } from '../history/history.ts';
import { LIMITS } from '../limits.ts';
import { defineTool, EntityName, queryText, READS, type Tool, toolInput } from './tool.ts';

const { limitMax } = LIMITS.changes;
/** A result contains its items twice, once with each quote escaped. */
const BYTES_MAX = LIMITS.response.bytesMax / 4;

export const CHANGE_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'get_changes',
    title: 'Get changes',
    description: `Lists what has changed since a cursor: each change that you may see once, those of a record in their order. Without
since it only answers a cursor; go on with nextCursor, at once while hasMore is true.`,
    access: 'tenant',
    hints: READS,
    input: toolInput({
      since: Type.Optional(
        queryText('A cursor: nextCursor, or the cursor of an item; earliest: from the oldest kept.'),
      ),
      entities: Type.Optional(queryText('Names of entities, separated by commas; default: all.')),
      events: Type.Optional(
        queryText('record.created, record.updated, record.deleted, separated by commas; default: all.'),
      ),
      filters: Type.Optional(queryText('A condition on the records of the one entity named.')),
      view: Type.Optional(queryText('The slug of a view, whose entity and conditions apply.')),
      transitions: Type.Optional(
        Type.Boolean({ description: 'Show updates that move a record in or out as record.entered and record.left.' }),
      ),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: limitMax, description: 'Items per page; default 100.' }),
      ),
    }),
    output: ChangesPageSchema,
    run: async ({ app, request, caller }, { tenantSlug: _, ...query }) =>
      readChanges(app, await followerOf(app, request, caller), query, BYTES_MAX),
  }),
  defineTool({
    name: 'get_history',
    title: 'Get the history of a record',
    description: `Lists the versions of a record, newest first, with who made each and what it changed; also of a deleted record. Go
on with nextCursor until it is null.`,
    access: 'tenant',
    hints: READS,
    input: toolInput({
      entity_name: EntityName,
      record_id: Type.String({ minLength: 1, maxLength: 100, description: 'The id of the record, a UUID.' }),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: LIMITS.list.limitMax, description: 'Versions per page; default 20.' }),
      ),
      cursor: Type.Optional(queryText('nextCursor of the page before.')),
    }),
    output: HistorySchema,
    run: async ({ app, caller }, { entity_name: name, record_id: id, tenantSlug: _, ...query }) =>
      readHistory(app, caller, name, id, query, BYTES_MAX),
  }),
];
