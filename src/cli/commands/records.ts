// Single records: list, get, create, update, delete. Values are given as `field=value`, in the types of the fields, or as a JSON
// object from a file or standard input.
// Contract: decisions#records.
import type { Command } from 'commander';
import { type Call, runs } from '../call.ts';
import { type EntityView, entityPath, recordPath, recordsPath, valuesOf } from '../entity.ts';
import { UsageError } from '../failures.ts';
import { readObject } from '../input.ts';
import type { Row } from '../output.ts';
import { walk } from '../walk.ts';
import { canBeTried, type WriteOptions, write } from '../write.ts';

interface ListOptions {
  filters?: string;
  search?: string;
  sort?: string;
  fields?: string;
  limit: string;
  all?: boolean;
}

const PAGE_MAX = 100;
/** Fields that a table shows only on request. */
const SYSTEM = ['entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
/** The most columns of a table, besides the id. */
const COLUMNS_MAX = 7;

export function addRecordCommands(program: Command): void {
  const records = program.command('records').description('records of an entity: list, get, create, update, delete');
  runs(
    records
      .command('list')
      .argument('<entity>')
      .option('--filters <condition>', 'such as "stage = won AND amount > 50000"')
      .option('--search <words>', 'words that must occur')
      .option('--sort <keys>', 'fields separated by commas; `-` sorts one descending')
      .option('--fields <keys>', 'only these fields, separated by commas')
      .option('--limit <number>', 'how many', '20')
      .option('--all', 'all of them; with --json one record a line')
      .description('list records')
      .addHelpText('after', LIST_EXAMPLES),
    list,
  );
  runs(
    records
      .command('get')
      .argument('<entity>')
      .argument('<id>')
      .option('--resolve', 'with the related records')
      .description('show a record')
      .addHelpText('after', '\nExample:\n  $ tds records get deals 01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'),
    async ({ service, output, options }: Call<{ resolve?: boolean }>, entity: string, id: string) => {
      const record = await service.get<Row>(recordPath(entity, id), { resolve: options.resolve });
      await output.answer(record, () => output.members(record));
    },
  );
  runs(
    withValues(records.command('create').argument('<entity>').description('create a record')).addHelpText(
      'after',
      CREATE_EXAMPLES,
    ),
    async (call: Call<ValueOptions>, entity: string, pairs: string[]) => {
      const body = await valuesFrom(call, entity, pairs);
      await write<Row>(call, 'POST', recordsPath(entity), { body }, (record) => call.output.members(record));
    },
  );
  runs(
    withValues(records.command('update').argument('<entity>').argument('<id>').description('change a record'))
      .option('--if-match <etag>', 'only while the record has this ETag')
      .addHelpText('after', '\nExample:\n  $ tds records update deals 01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f stage=won'),
    async (call: Call<ValueOptions & { ifMatch?: string }>, entity: string, id: string, pairs: string[]) => {
      const body = await valuesFrom(call, entity, pairs);
      const { ifMatch } = call.options;
      const headers = ifMatch === undefined ? {} : { headers: { 'If-Match': ifMatch } };
      const request = { body, ...headers };
      await write<Row>(call, 'PATCH', recordPath(entity, id), request, (record) => call.output.members(record));
    },
  );
  runs(
    canBeTried(
      records.command('delete').argument('<entity>').argument('<id...>').description('delete records'),
    ).addHelpText('after', '\nExample:\n  $ tds records delete deals 01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'),
    async (call: Call<WriteOptions>, entity: string, ids: string[]) => {
      const show = ({ id }: { id: string }): void =>
        call.output.note(`${id} ${call.options.dryRun ? 'would be' : 'is'} deleted`);
      for (const id of ids) await write(call, 'DELETE', recordPath(entity, id), {}, show);
    },
  );
}

const LIST_EXAMPLES = `
Examples:
  $ tds records list deals --filters "stage = won" --sort=-amount --limit 5
  $ tds records list deals --all --json | jq -r .title`;
const CREATE_EXAMPLES = `
Examples:
  $ tds records create companies title=Nordlicht country=DE
  $ echo '{ "title": "Nordlicht" }' | tds records create companies --file -`;

async function list(call: Call<ListOptions>, entity: string): Promise<void> {
  const { options, output, service } = call;
  const wanted = options.all ? Number.POSITIVE_INFINITY : Number(options.limit);
  if (!(wanted >= 1) || (!options.all && !Number.isInteger(wanted)))
    throw new UsageError('--limit takes a whole number of at least 1');
  let left = wanted;
  const rows: Row[] = [];
  const { filters, search, sort, fields } = options;
  const selection = { filters, search, sort, fields, limit: Math.min(PAGE_MAX, wanted) };
  for await (const record of walk(service, entity, selection)) {
    // The records of a large entity may not fit into memory.
    if (options.all && output.isJson) await output.item(record, '');
    else rows.push(record);
    left -= 1;
    if (left <= 0) break;
  }
  if (options.all && output.isJson) return;
  await output.answer(rows, () => output.table(rows, columnsOf(rows, options.fields)));
}

function columnsOf(rows: readonly Row[], fields: string | undefined): string[] {
  if (fields !== undefined) return ['id', ...fields.split(',').map((key) => key.trim())];
  const own = Object.keys(rows[0] ?? {}).filter((key) => key !== 'id' && !SYSTEM.includes(key));
  return ['id', ...own.slice(0, COLUMNS_MAX)];
}

interface ValueOptions extends WriteOptions {
  file?: string;
}

function withValues(command: Command): Command {
  return canBeTried(command)
    .argument('[field=value...]')
    .option('--file <path>', 'the values as a JSON object, `-` for standard input');
}

async function valuesFrom(
  { service, options }: Call<ValueOptions>,
  entity: string,
  pairs: readonly string[],
): Promise<Record<string, unknown>> {
  const given = options.file === undefined ? {} : await readObject(options.file);
  if (pairs.length === 0) return given;
  const { fields } = await service.get<EntityView>(entityPath(entity));
  return { ...given, ...valuesOf(fields, pairs) };
}
