// A write by a command: sent, or with `--dry-run` only tried. A dry run reports what effects the write would have, as a note or,
// with --json, as `{ data, dryRun }`.
// Contract: trying#dry-runs.
import type { Command } from 'commander';
import type { RequestOptions } from '../../client/src/client.ts';
import type { DryRun } from '../../client/src/transport.ts';
import type { Call } from './call.ts';
import { printable } from './output.ts';

export interface WriteOptions {
  dryRun?: boolean;
}

export function canBeTried(command: Command): Command {
  return command.option('--dry-run', 'only try it: nothing is kept, and what it would cause is said');
}

/** Performs the write and prints the response's data; `show` prints it for people. */
export async function write<T>(
  { service, output, options }: Call<WriteOptions>,
  method: string,
  path: string,
  request: RequestOptions,
  show: (data: T) => void | Promise<void>,
): Promise<void> {
  const query = { ...request.query, ...(options.dryRun === true ? { dryRun: true } : {}) };
  const { data, dryRun } = await service.answer<T>(method, path, { ...request, query });
  if (dryRun === undefined) return output.answer(data, () => show(data));
  await output.answer({ data, dryRun }, async () => {
    await show(data);
    for (const line of linesOf(dryRun)) output.note(line);
  });
}

function linesOf({ rules, events, webhooks, breaks }: DryRun): string[] {
  return [
    'dry run: nothing is kept',
    `  events: ${events}, webhooks: ${webhooks}${rules.length === 0 ? '' : `, rules: ${printable(rules.join(', '))}`}`,
    ...breaks.map(({ kind, name, text, count }) =>
      printable(
        kind === 'record' ? `  ${count} record(s) of ${name} ${text}` : `  breaks the ${kind} ${name}: ${text}`,
      ),
    ),
  ];
}
