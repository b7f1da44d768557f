// Changes as they are committed: `tds tail` shows them, and `tds webhooks listen` sends them to a local receiver as a webhook
// would. Both follow the feed, so that nothing is missed while the connection is lost, and both can continue from a cursor.
// Contract: feed#guarantee, decisions#webhook-requests.
import { randomBytes } from 'node:crypto';
import process from 'node:process';
import { type Command, Option } from 'commander';
import { type Call, runs } from '../call.ts';
import { UsageError } from '../failures.ts';
import { type Change, follow } from '../follow.ts';
import { readSecret } from '../input.ts';
import { printable, type Row } from '../output.ts';

interface TailOptions {
  events?: string;
  filters?: string;
  view?: string;
  transitions?: boolean;
  since?: string;
}

interface ListenOptions extends TailOptions {
  forwardTo: string;
  entities?: string;
  secret?: string | true;
  include?: string;
}

const TONES = { created: 'green', updated: 'yellow', deleted: 'red', entered: 'green', left: 'red' } as const;
const RECORD_EVENTS = 'record.created,record.updated,record.deleted';

export function addLiveCommands(program: Command): void {
  const tail = program
    .command('tail')
    .argument('[entity...]', 'default: all')
    .option('--events <types>', 'such as record.created,record.deleted')
    .option('--filters <condition>', 'on the fields of one entity')
    .option('--view <slug>', 'only what a view shows')
    .option('--transitions', 'show records that enter or leave what one sees')
    .option('--since <cursor>', 'go on after this change; `earliest` for all that are kept')
    .description('show changes as they are committed, until Ctrl-C')
    .addHelpText('after', TAIL_EXAMPLES);
  runs(tail, showChanges);
  const webhooks = program.command('webhooks').description('webhooks: list subscriptions, listen on this machine');
  runs(
    webhooks
      .command('list')
      .description('list the subscriptions with their health')
      .addHelpText('after', '\nExample:\n  $ tds webhooks list'),
    listSubscriptions,
  );
  const listen = webhooks
    .command('listen')
    .requiredOption('--forward-to <url>', 'the receiver, such as http://127.0.0.1:8080/hook')
    .option('--entities <names>', 'separated by commas; default: all')
    .option('--events <types>', `default: ${RECORD_EVENTS}`)
    .option('--filters <condition>', 'on the fields of one entity')
    .option('--since <cursor>', 'go on after this change')
    .addOption(new Option('--secret [source]', 'sign with a secret of your own: typed, or `-` for standard input'))
    .description('send changes to a receiver on this machine, signed as webhooks are')
    .addHelpText('after', LISTEN_EXAMPLES);
  runs(listen, forwardChanges);
}

const TAIL_EXAMPLES = `
Examples:
  $ tds tail
  $ tds tail deals --filters "stage = won" --json | jq -r .data.title`;
const LISTEN_EXAMPLES = `
Example:
  $ tds webhooks listen --forward-to http://127.0.0.1:8080/hook --entities deals
Each change is one POST with the body and the headers of a real delivery. The signing secret is printed, or taken from
--secret or TDS_WEBHOOK_SECRET. A failed delivery is shown and not repeated; --since sends from a cursor again.`;

async function showChanges(call: Call<TailOptions>, entities: string[]): Promise<void> {
  const { output, options, service } = call;
  const { events, filters, view, transitions } = options;
  let last = options.since ?? '';
  const selection = { entities: entities.join(',') || undefined, events, filters, view, transitions };
  for await (const change of follow(service, last, selection)) {
    await output.item(change, lineOf(call, change));
    last = change.cursor;
  }
  if (last !== '' && !output.isJson) output.note(`go on with --since ${last}`);
}

function lineOf({ output }: Call, { at, event, entity, record_id: id, data }: Change): string {
  const { id: _, entityId, createdAt, updatedAt, createdBy, updatedBy, ...fields } = data as Row;
  const kind = event.split('.')[1] as keyof typeof TONES;
  const values = Object.keys(fields).length === 0 ? '' : `  ${printable(JSON.stringify(fields))}`;
  const type = output.tone(TONES[kind] ?? 'bold', event.padEnd(14));
  return `${output.tone('dim', at.slice(11, 23))}  ${type}  ${printable(`${entity ?? ''} ${id ?? ''}`)}${values}`;
}

async function listSubscriptions({ service, output }: Call): Promise<void> {
  const subscriptions = await service.get<(Row & { health: { state: string } })[]>('/api/webhooks/subscriptions');
  const rows = subscriptions.map((one) => ({ ...one, ...one.health, events: one.event_types }));
  await output.answer(subscriptions, () => output.table(rows, ['id', 'entity=entity_name', 'events', 'url', 'state']));
}

async function forwardChanges(call: Call<ListenOptions>): Promise<void> {
  const { options, output, service } = call;
  const url = receiverUrl(options.forwardTo);
  const { Forwarder } = await import('../forward.ts');
  const secret = await signingSecret(call);
  const tenant = await call.whoami();
  const forwarder = new Forwarder(service, url, secret, tenant.id);
  const entities = options.entities;
  const events = options.events ?? RECORD_EVENTS;
  const { filters } = options;
  let last = options.since ?? '';
  output.note(`sending changes of ${tenant.slug} to ${url.href}; stop with Ctrl-C`);
  for await (const change of follow(service, last, { entities, events, filters })) {
    const result = await forwarder.send(change);
    if (call.signal.aborted) break;
    const isFine = result.error === null;
    const status = output.tone(isFine ? 'green' : 'red', result.error ?? String(result.status));
    const what = printable(`${change.event}  ${change.entity} ${change.record_id}`);
    await output.item(
      { ...result, id: change.id, event: change.event, cursor: change.cursor },
      `${status}  ${what}  ${result.durationMs} ms`,
    );
    last = change.cursor;
  }
  if (last !== '') output.note(`go on with --since ${last}`);
}

/** The receiver's address. It may be a machine in the same network, since this program sends, not the service. */
function receiverUrl(given: string): URL {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`${given} is no address of a receiver, such as http://127.0.0.1:8080/hook`);
  }
  return url;
}

async function signingSecret({ options, output, signal }: Call<ListenOptions>): Promise<string> {
  const { secret } = options;
  if (secret !== undefined) return readSecret('Signing secret', secret === true ? undefined : secret, signal);
  if (process.env.TDS_WEBHOOK_SECRET) return process.env.TDS_WEBHOOK_SECRET;
  const made = `whsec_${randomBytes(24).toString('base64')}`;
  output.note(`the signing secret of this run is ${made}`);
  return made;
}
