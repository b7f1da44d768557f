// MCP tools for entities and records, which call the operations of the REST interface. Their events are marked `triggered_by:
// mcp`. Failures: the failures of the operations: 400, 403, 404, 409.
// Contract: decisions#mcp.
import { type TSchema, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { EntitySchema } from '../entities/definition.ts';
import { listEntities } from '../entities/entities.ts';
import { sized } from '../http/bounded-response.ts';
import { DryRunSchema, reportTo, tryOut } from '../http/dry-run.ts';
import { Deleted } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { listRecords } from '../records/read/list.ts';
import { readRecord } from '../records/read/read.ts';
import { RecordPageSchema, RecordSchema, ValuesSchema } from '../records/record.ts';
import { shapeWritten } from '../records/row.ts';
import { autocommit } from '../records/write/context.ts';
import { createRecord, deleteRecord, updateRecord, type Written } from '../records/write/write.ts';
import { waitForPlace } from '../runtime/large-calls.ts';
import type { JsonObject } from '../runtime/text.ts';
import { ADDS, defineTool, EntityName, queryText, READS, REPLACES, type Tool, toolInput } from './tool.ts';

const RecordId = Type.String({ minLength: 1, maxLength: 100, description: 'The id of the record, a UUID.' });
const { limitMax, pageMax, resolveDepthMax } = LIMITS.list;

const Expansion = {
  resolve: Type.Optional(Type.Boolean({ description: 'Expand relations to full records.' })),
  resolve_depth: Type.Optional(
    Type.Integer({ minimum: 1, maximum: resolveDepthMax, description: 'Levels of relations to expand.' }),
  ),
  fields: Type.Optional(queryText('Only these fields, separated by commas.')),
};

const Query = toolInput({
  entity_name: EntityName,
  filters: Type.Optional(
    queryText('A condition, such as: status = "open" AND amount > 10. Operators: = != > < >= <= contains.'),
  ),
  search: Type.Optional(Type.String({ maxLength: 1_000, description: 'Words that must all occur in the record.' })),
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: pageMax, description: '1-indexed page.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: limitMax, description: 'Records per page; default 20.' })),
  sort: Type.Optional(queryText('Fields to sort by, separated by commas; a leading - sorts in descending order.')),
  order: Type.Optional(Type.Union([Type.Literal('asc'), Type.Literal('desc')], { error: 'must be asc or desc' })),
  cursor: Type.Optional(queryText('Keyset paging: empty for the first page, then nextCursor.')),
  ...Expansion,
});

const DryRun = {
  dry_run: Type.Optional(
    Type.Boolean({
      description: 'Only try it: nothing is kept; dryRun says which rules, events and webhooks would follow.',
    }),
  ),
};
/** The schema of a write's result; with `dry_run`, it also has the effects that the write would have. */
const tried = (schema: TSchema): TSchema => ({
  ...schema,
  properties: { ...schema.properties, dryRun: DryRunSchema },
});

/** The result of a write, or the result and effects of its dry run. */
async function writeOrTry(
  { app, caller }: { app: App; caller: TenantCaller },
  isDry: boolean | undefined,
  write: (app: App) => Promise<object>,
): Promise<object> {
  if (isDry !== true) return write(app);
  await waitForPlace();
  const { result, dryRun } = await tryOut(app, {}, write);
  return { ...result, dryRun: reportTo(caller, dryRun) };
}

const Data = Type.Unsafe<JsonObject>({ ...ValuesSchema, description: 'Values by field key.' });

function toJson({ row, scope }: Written, data: JsonObject): object {
  return shapeWritten(row, scope, data);
}

export const RECORD_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'list_entities',
    title: 'List entities',
    description: 'Lists the entities (record types) that you may read, with their fields.',
    access: 'tenant',
    hints: READS,
    input: toolInput({}),
    output: Type.Object({ entities: Type.Array(EntitySchema) }),
    run: async ({ app, caller }) => sized({ entities: await listEntities(app, caller) }, LIMITS.response.largeFrom),
  }),
  defineTool({
    name: 'query_records',
    title: 'Query records',
    description: 'Lists the records of an entity that match a condition, one page at a time, with the exact total.',
    access: 'tenant',
    hints: READS,
    input: Query,
    output: RecordPageSchema,
    run: async ({ app, caller }, { entity_name: name, tenantSlug: _, ...input }) =>
      listRecords(app, caller, name, input),
  }),
  defineTool({
    name: 'get_record',
    title: 'Get a record',
    description: 'Reads one record of an entity by its id.',
    access: 'tenant',
    hints: READS,
    input: toolInput({ entity_name: EntityName, record_id: RecordId, ...Expansion }),
    output: RecordSchema,
    run: async ({ app, caller }, { entity_name: name, record_id: id, ...input }) =>
      (await readRecord(app, caller, name, id, input)).record,
  }),
  defineTool({
    name: 'create_record',
    title: 'Create a record',
    description: 'Creates a record of an entity from values by field key and returns it.',
    access: 'tenant',
    hints: ADDS,
    input: toolInput({ entity_name: EntityName, data: Data, ...DryRun }),
    output: tried(RecordSchema),
    run: async ({ app, caller }, { entity_name: name, data, dry_run: isDry }) =>
      writeOrTry({ app, caller }, isDry, async (used) =>
        toJson(await createRecord(autocommit(used, caller), name, data), data),
      ),
  }),
  defineTool({
    name: 'update_record',
    title: 'Change a record',
    description: 'Changes the given fields; null clears an optional one.',
    access: 'tenant',
    hints: REPLACES,
    input: toolInput({ entity_name: EntityName, record_id: RecordId, data: Data, ...DryRun }),
    output: tried(RecordSchema),
    run: async ({ app, caller }, { entity_name: name, record_id: id, data, dry_run: isDry }) =>
      writeOrTry({ app, caller }, isDry, async (used) =>
        toJson(await updateRecord(autocommit(used, caller), name, id, data), data),
      ),
  }),
  defineTool({
    name: 'delete_record',
    title: 'Delete a record',
    description: 'Deletes a record permanently.',
    access: 'tenant',
    hints: REPLACES,
    input: toolInput({ entity_name: EntityName, record_id: RecordId, ...DryRun }),
    output: tried(Deleted),
    run: async ({ app, caller }, { entity_name: name, record_id: id, dry_run: isDry }) =>
      writeOrTry({ app, caller }, isDry, async (used) => {
        await deleteRecord(autocommit(used, caller), name, id);
        return { id: id.toLowerCase(), deleted: true };
      }),
  }),
];
