// Keys, roles, and explanations of who may read or do what. The code that decides calls also makes the explanations. Keys are
// shown once, when they are created.
// Contract: decisions#keys, decisions#roles.
import { type Command, Option } from 'commander';
import { type Call, runs } from '../call.ts';
import { UsageError } from '../failures.ts';
import { readObject } from '../input.ts';
import { printable, type Row } from '../output.ts';
import { canBeTried, type WriteOptions, write } from '../write.ts';

const ROLES = '/api/roles';
const rolePath = (name: string): string => `${ROLES}/${encodeURIComponent(name)}`;

export function addAccessCommands(program: Command): void {
  addKeys(program.command('keys').description('owner keys of the tenant: list, create, revoke'));
  addRoles(program.command('roles').description('roles of the tenant: list, get, create, update, delete'));
  const why = program
    .command('explain')
    .argument('<operation>', 'read, create, update or delete')
    .argument('<entity>')
    .argument('[record]', 'the id of a record')
    .option('--role <name>', 'as somebody with this role')
    .option('--as <kind:id>', 'as a credential, with its kind as `tds whoami` shows it: user:01993b1c-...')
    .addOption(
      new Option('--channel <name>', 'where it would be seen').choices([
        'rest',
        'sse',
        'websocket',
        'webhook',
        'changes',
        'mcp',
      ]),
    )
    .description('say why somebody may do something, or may not')
    .addHelpText('after', '\nExample:\n  $ tds explain read deals --role partner');
  runs(why, explain);
}

function addKeys(keys: Command): void {
  runs(
    keys.command('list').description('list the keys').addHelpText('after', '\nExample:\n  $ tds keys list'),
    async ({ service, output }: Call) => {
      const listed = await service.get<Row[]>('/api/keys');
      await output.answer(listed, () =>
        output.table(listed, ['id', 'label', 'prefix=keyPrefix', 'expiresAt', 'lastUsedAt', 'createdAt']),
      );
    },
  );
  runs(
    keys
      .command('create')
      .argument('<label>')
      .option('--expires <time>', 'when it ends, such as 2027-01-01T00:00:00Z')
      .description('create an owner key; it is printed once, alone on standard output')
      .addHelpText('after', '\nExample:\n  $ export TDS_KEY=$(tds keys create ci)'),
    async ({ service, output, options }: Call<{ expires?: string }>, label: string) => {
      const expires = options.expires === undefined ? {} : { expiresAt: options.expires };
      const key = await service.post<Row>('/api/keys', { label, ...expires });
      await output.answer(key, () => output.line(printable(String(key.key))));
    },
  );
  runs(
    keys
      .command('revoke')
      .argument('<id>')
      .description('revoke a key')
      .addHelpText('after', '\nExample:\n  $ tds keys revoke 01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f'),
    async ({ service, output }: Call, id: string) => {
      const answer = await service.delete(`/api/keys/${encodeURIComponent(id)}`);
      await output.answer(answer, () => output.note(`${id} is revoked`));
    },
  );
}

function addRoles(roles: Command): void {
  runs(
    roles.command('list').description('list the roles').addHelpText('after', '\nExample:\n  $ tds roles list'),
    async ({ service, output }: Call) => {
      const listed = await service.get<Row[]>(ROLES);
      await output.answer(listed, () => output.table(listed, ['name', 'description', 'permissions']));
    },
  );
  runs(
    roles
      .command('get')
      .argument('<role>')
      .description('show a role')
      .addHelpText('after', '\nExample:\n  $ tds roles get partner --json > partner.json'),
    async ({ service, output }: Call, name: string) => {
      const role = await service.get<Row>(rolePath(name));
      await output.answer(role, () => output.members(role));
    },
  );
  const file = 'the definition as a JSON object, `-` for standard input';
  runs(
    canBeTried(roles.command('create'))
      .argument('<role>')
      .argument('<file>', file)
      .description('create a role')
      .addHelpText('after', CREATE_EXAMPLE),
    async (call: Call<WriteOptions>, name: string, path: string) => {
      const body = { ...(await readObject(path)), name };
      await write(call, 'POST', ROLES, { body }, noteOf(call, name, 'created'));
    },
  );
  runs(
    canBeTried(roles.command('update'))
      .argument('<role>')
      .argument('<file>', file)
      .description('change what the file names of a role')
      .addHelpText('after', '\nExample:\n  $ tds roles update partner partner.json'),
    async (call: Call<WriteOptions>, name: string, path: string) => {
      const body = await readObject(path);
      await write(call, 'PATCH', rolePath(name), { body }, noteOf(call, name, 'changed'));
    },
  );
  runs(
    canBeTried(roles.command('delete'))
      .argument('<role>')
      .description('delete a role')
      .addHelpText('after', '\nExample:\n  $ tds roles delete partner'),
    (call: Call<WriteOptions>, name: string) =>
      write(call, 'DELETE', rolePath(name), {}, noteOf(call, name, 'deleted')),
  );
}

function noteOf({ output, options }: Call<WriteOptions>, name: string, done: string): () => void {
  return () => output.note(`the role ${name} ${options.dryRun ? 'would be' : 'is'} ${done}`);
}

const CREATE_EXAMPLE = `
Example:
  $ echo '{ "permissions": { "deals": ["read"] } }' | tds roles create reader -`;

interface Explanation {
  allowed: boolean;
  decidedBy: { source: string; name: string | null; text: string };
  fields: { visible: string[]; hidden: string[] };
  row: { matches: boolean; condition: string } | null;
}

async function explain(
  { service, output, options }: Call<{ role?: string; as?: string; channel?: string }>,
  operation: string,
  entity: string,
  record?: string,
): Promise<void> {
  const answer = await service.post<Explanation>('/api/access/explain', {
    as: whoFrom(options),
    operation,
    entity,
    ...(record === undefined ? {} : { record_id: record }),
    ...(options.channel === undefined ? {} : { channel: options.channel }),
  });
  const { allowed, decidedBy, fields, row } = answer;
  await output.answer(answer, async () => {
    await output.line(
      `${allowed ? output.tone('green', 'yes') : output.tone('red', 'no')}: ${printable(decidedBy.text)}`,
    );
    await output.members({
      'decided by': [decidedBy.source, decidedBy.name].filter(Boolean).join(' '),
      ...(fields.visible.length > 0 ? { visible: fields.visible.join(', ') } : {}),
      ...(fields.hidden.length > 0 ? { hidden: fields.hidden.join(', ') } : {}),
      ...(row === null ? {} : { row: `${row.matches ? 'fits' : 'does not fit'} ${row.condition}` }),
    });
  });
}

function whoFrom({ role, as }: { role?: string; as?: string }): object {
  const [, kind, id] = /^(\w+):(.+)$/.exec(as ?? '') ?? [];
  if (role !== undefined && as === undefined) return { role };
  if (role === undefined && kind !== undefined) return { kind, id };
  throw new UsageError('say as whom: --role <name> or --as <kind:id>');
}
