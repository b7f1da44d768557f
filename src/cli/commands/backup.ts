// A tenant as one file, and an installation as a folder of such files: backup, restore, clone. A file is either complete or
// absent: the document marks its own end, and a file without that mark is refused.
// Contract: decisions#tenants.
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { Option } from 'commander';
import { type Backup, backUpAll, NDJSON, type Restored, restoreAll } from '../backups.ts';
import { type Call, runs } from '../call.ts';
import { saveDocument } from '../document.ts';
import { EndWith, EXIT, UsageError } from '../failures.ts';
import { openBytes, readObject, requireFile } from '../input.ts';
import { counted, startProgress } from '../progress.ts';
import { TENANTS, tenantPath } from '../tenants.ts';

export function addBackupCommands(program: Command): void {
  const backup = program
    .command('backup')
    .argument('[out]', 'the file, `-` for standard output; with --all a new folder')
    .option('--all', 'all tenants of the installation, for operators')
    .option('--no-secrets', 'without the hashes of passwords: people then need new ones')
    .description('write a tenant, or all of them, as it is at one moment')
    .addHelpText('after', BACKUP_EXAMPLES);
  runs(backup, backUp);
  const restore = program
    .command('restore')
    .argument('<from>', 'a file, `-` for standard input, or a folder of `tds backup --all`')
    .option('--slug <slug>', 'a new slug; default: that of the file')
    .option('--name <text>', 'a new name')
    .addOption(new Option('--ids <what>', 'keep the ids, or make new ones').choices(['keep', 'new']).default('keep'))
    .description('create tenants from a backup; prints their new owner keys, which are shown once')
    .addHelpText(
      'after',
      '\nExamples:\n  $ tds restore acme.ndjson --slug acme-copy\n  $ tds restore backups/2026-01-31',
    );
  runs(restore, restoreFrom);
  const clone = program
    .command('clone')
    .argument('<slug>', 'the tenant')
    .argument('<new-slug>', 'the copy')
    .option('--name <text>', 'a name for the copy; default: its slug')
    .option('--mask <file>', 'a JSON object such as { "people": { "email": "hash", "phone": "null" } }')
    .description('copy a tenant, with fields masked if that is wanted')
    .addHelpText('after', '\nExample:\n  $ tds clone acme acme-staging --mask mask.json');
  runs(clone, cloneTenant);
}

const BACKUP_EXAMPLES = `
Examples:
  $ tds backup acme.ndjson
  $ tds backup - | gzip > acme.ndjson.gz
  $ tds backup --all backups/$(date +%F)`;

interface BackupOptions {
  all?: boolean;
  secrets: boolean;
}

async function backUp(call: Call<BackupOptions>, out?: string): Promise<void> {
  const { options, output, service } = call;
  if (options.all) {
    const backups = await backUpAll(call, newFolder(out), options.secrets);
    return output.answer(backups, () => output.table(backups.map(rowOf), ['tenant', 'records', 'bytes', 'file']));
  }
  if (out === undefined) throw new UsageError('say where to write: a file, or `-` for standard output');
  const { kind } = await service.get<{ kind: string }>('/api/auth/whoami');
  const isOperator = kind === 'super_admin' || kind === 'admin_key';
  const path = isOperator ? `${tenantPath(await call.tenantSlug())}/export` : '/api/tenant/export';
  const query = kind === 'super_admin' && options.secrets ? { secrets: true } : {};
  const saved = await saveDocument(call, await service.download(path, query), out);
  if (out !== '-')
    await output.answer(saved, () => output.note(`${out}: ${saved.counts.record ?? 0} records, ${saved.bytes} bytes`));
}

function rowOf({ slug, counts, bytes, file }: Backup): Record<string, unknown> {
  return { tenant: slug, records: counts.record ?? 0, bytes, file };
}

function newFolder(path: string | undefined): string {
  if (path === undefined || path === '-') throw new UsageError('--all needs a folder');
  if (existsSync(path) && readdirSync(path).length > 0)
    throw new UsageError(`${path} is not empty: choose a new folder`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}

interface RestoreOptions {
  slug?: string;
  name?: string;
  ids: string;
}

async function restoreFrom(call: Call<RestoreOptions>, from: string): Promise<void> {
  const { options, output, service } = call;
  const { slug, name, ids } = options;
  if (from !== '-' && existsSync(from) && statSync(from).isDirectory()) {
    if (slug !== undefined || name !== undefined) throw new UsageError('--slug and --name are for one file');
    const results = await restoreAll(call, from, ids);
    await output.answer(results, () =>
      output.table(results.map(shownResult), ['tenant', 'records', 'apiKey', 'error']),
    );
    if (results.some(({ error }) => error !== null)) throw new EndWith(EXIT.refused);
    return;
  }
  if (from !== '-') requireFile(from);
  const progress = await startProgress(output, from === '-' ? null : statSync(from).size);
  try {
    const body = counted(openBytes(from), (length) => progress.add(length));
    const restored = await service.upload<Restored>(`${TENANTS}/import`, body, NDJSON, { slug, name, ids });
    progress.stop();
    await output.answer(restored, () => output.members(shownTenant(restored)));
  } finally {
    progress.stop();
  }
}

function shownTenant({ tenant, created, apiKey }: Restored): Record<string, unknown> {
  return { tenant: tenant.slug, ...created, apiKey };
}

function shownResult({ slug, restored, error }: { slug: string; restored: Restored | null; error: string | null }) {
  return { tenant: slug, records: restored?.created.record ?? '', apiKey: restored?.apiKey ?? '', error };
}

async function cloneTenant(
  { service, output, options }: Call<{ name?: string; mask?: string }>,
  from: string,
  slug: string,
): Promise<void> {
  const mask = options.mask === undefined ? {} : { mask: await readObject(options.mask) };
  const body = { slug, name: options.name ?? slug, ...mask };
  const cloned = await service.post<Restored>(`${tenantPath(from)}/clone`, body);
  await output.answer(cloned, () => output.members(shownTenant(cloned)));
}
