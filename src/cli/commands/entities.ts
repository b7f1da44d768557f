// Entities: list, show, create from fields in short form or from JSON, and delete. The short form of a field is `key:type:flag`,
// with the options of a select or the target of a relation in parentheses.
// Contract: decisions#entities.
import type { Command } from 'commander';
import { type Call, runs } from '../call.ts';
import { type EntityView, entityPath } from '../entity.ts';
import { UsageError } from '../failures.ts';
import { readObject } from '../input.ts';
import { canBeTried, type WriteOptions, write } from '../write.ts';

const FLAGS = ['required', 'unique', 'indexed'];

export function addEntityCommands(program: Command): void {
  const entities = program.command('entities').description('record types: list, get, create, delete, advice');
  runs(
    entities.command('list').description('list the entities').addHelpText('after', '\nExample:\n  $ tds entities list'),
    list,
  );
  runs(
    entities
      .command('get')
      .argument('<entity>')
      .description('show an entity with its fields')
      .addHelpText('after', '\nExample:\n  $ tds entities get deals'),
    show,
  );
  runs(
    entities
      .command('advice')
      .argument('<entity>')
      .description('show which lists of the last day were slow, and the indexes that they lack')
      .addHelpText('after', '\nExample:\n  $ tds entities advice deals'),
    advise,
  );
  runs(
    canBeTried(entities.command('create'))
      .argument('<entity>')
      .argument('[field...]', 'such as `title:text:required`, `stage:select(new,won)`, `company:relation(companies)`')
      .option('--file <path>', 'the definition as a JSON object, `-` for standard input')
      .option('--label <text>', 'a name for people')
      .description('create an entity')
      .addHelpText('after', CREATE_EXAMPLES),
    create,
  );
  runs(
    canBeTried(entities.command('delete'))
      .argument('<entity>')
      .option('--confirm <entity>', 'repeats the name; needed when it has records')
      .description('delete an entity with its records')
      .addHelpText('after', '\nExample:\n  $ tds entities delete drafts --confirm drafts'),
    async (call: Call<WriteOptions & { confirm?: string }>, name: string) => {
      const { confirm, dryRun } = call.options;
      await write(call, 'DELETE', entityPath(name), { query: { confirm } }, () =>
        call.output.note(`${name} ${dryRun ? 'would be' : 'is'} deleted`),
      );
    },
  );
}

const CREATE_EXAMPLES = `
Examples:
  $ tds entities create tasks title:text:required "status:select(open,done)" due:date
  $ tds entities create tasks --file tasks.json`;

async function list({ service, output }: Call): Promise<void> {
  const entities = await service.get<EntityView[]>('/api/entities');
  const rows = entities.map((entity) => ({ ...entity, fields: entity.fields.map(({ key }) => key).join(', ') }));
  await output.answer(entities, () => output.table(rows, ['name', 'label', 'fields']));
}

async function show({ service, output }: Call, name: string): Promise<void> {
  const entity = await service.get<EntityView>(entityPath(name));
  const rows = entity.fields.map((field) => ({
    ...field,
    rules: FLAGS.filter((flag) => field[flag] === true).join(', '),
    values: field.options ?? field.entity ?? '',
  }));
  await output.answer(entity, () => output.table(rows, ['key', 'type', 'rules', 'values', 'label']));
}

interface Advice {
  filters: string | null;
  sort: string;
  index: { fields: string[]; state: string } | null;
}

async function advise({ service, output }: Call, name: string): Promise<void> {
  const advice = await service.get<Advice[]>(`${entityPath(name)}/advice`);
  const rows = advice.map(({ index, ...list }) => ({ ...list, index: index?.fields.join(', '), state: index?.state }));
  await output.answer(advice, () => output.table(rows, ['filters', 'sort', 'seen', 'p50Ms', 'index', 'state']));
}

async function create(
  call: Call<WriteOptions & { file?: string; label?: string }>,
  name: string,
  short: string[],
): Promise<void> {
  const { options, output } = call;
  const given = options.file === undefined ? {} : await readObject(options.file);
  const label = options.label === undefined ? {} : { label: options.label };
  const fields = short.length === 0 ? {} : { fields: short.map(fieldOf) };
  const body = { ...given, ...label, ...fields, name };
  const is = options.dryRun ? 'would be' : 'is';
  await write<EntityView>(call, 'POST', '/api/entities', { body }, (entity) =>
    output.note(`${name} ${is} created with ${entity.fields.length} fields`),
  );
}

/** Parses a field in short form. */
export function fieldOf(text: string): Record<string, unknown> {
  const [, key, type, choices, flags = ''] = /^([^:]+):(\w+)(?:\(([^)]*)\))?((?::\w+)*)$/.exec(text) ?? [];
  const set = flags.split(':').slice(1);
  const unknown = set.find((flag) => !FLAGS.includes(flag));
  if (key === undefined || type === undefined || unknown !== undefined) {
    throw new UsageError(
      `${text} is no field such as title:text:required; flags are ${FLAGS.join(', ')}, ` +
        'choices of a select and the target of a relation stand in parentheses',
    );
  }
  const list = choices?.split(',').map((one) => one.trim());
  return {
    key,
    type,
    ...(list === undefined ? {} : type.startsWith('relation') ? { entity: list[0] } : { options: list }),
    ...Object.fromEntries(set.map((flag) => [flag, true])),
  };
}
