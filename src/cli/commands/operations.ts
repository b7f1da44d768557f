// The usage of a tenant, and the health of the installation. Without the super-admin secret, `health` tells whether the service
// can serve; with it, also whether the tenants' schemas are intact.
// Contract: decisions#operations, decisions#usage-and-quotas.
import type { Command } from 'commander';
import { ApiError } from '../../../client/src/client.ts';
import { type Call, runs } from '../call.ts';
import { EndWith, EXIT } from '../failures.ts';
import type { Row } from '../output.ts';
import { isSuperAdmin, type Service } from '../service.ts';

interface Usage {
  tenant: string;
  days: Row[];
  now: { records: Record<string, number>; storageBytes: number; users: number };
}

interface SchemaHealth {
  status: string;
  tenants_checked: number;
  tenants_degraded: number;
  issues: Row[];
}

const DAY_COLUMNS = 'day requests reads writes events deliveries streamHours socketHours sentBytes'.split(' ');

export function addOperationCommands(program: Command): void {
  const usage = program
    .command('usage')
    .option('--from <date>', 'the first day, YYYY-MM-DD; default: 30 days ago')
    .option('--to <date>', 'the last day')
    .description('what the tenant uses, by day and now')
    .addHelpText('after', '\nExample:\n  $ tds usage --from 2026-01-01 --to 2026-01-31');
  runs(usage, showUsage);
  const health = program
    .command('health')
    .description('whether the service is up, can serve, and has whole schemas; exit code 1 when not')
    .addHelpText('after', '\nExample:\n  $ tds health && ./deploy');
  runs(health, showHealth);
}

async function showUsage({ service, output, options }: Call<{ from?: string; to?: string }>): Promise<void> {
  const { from, to } = options;
  const usage = await service.get<Usage>('/api/tenant/usage', { from, to });
  const { records, storageBytes, users } = usage.now;
  await output.answer(usage, async () => {
    const used = usage.days.filter((day) => DAY_COLUMNS.some((key) => key !== 'day' && day[key] !== 0));
    await output.table(used, DAY_COLUMNS);
    await output.line('');
    await output.table(
      [...Object.entries(records).map(([entity, count]) => ({ entity, records: count }))],
      ['entity', 'records'],
    );
    await output.line(`${storageBytes} bytes of values, ${users} users`);
  });
}

async function showHealth({ service, output }: Call): Promise<void> {
  const up = await statusOf(service, '/health');
  const ready = await statusOf(service, '/ready');
  const mayCheck = isSuperAdmin(service.target.credential);
  const schema = mayCheck && ready === 'ok' ? await service.get<SchemaHealth>('/health/schema') : null;
  const isWell = up === 'ok' && ready === 'ok' && (schema === null || schema.status === 'healthy');
  await output.answer({ health: up, ready, schema }, async () => {
    await output.members({ health: up, ready, ...(schema === null ? {} : { schema: schema.status }) });
    if (schema !== null && schema.issues.length > 0) {
      await output.table(schema.issues, ['tenant', 'check', 'table', 'column', 'severity', 'fix']);
    }
  });
  if (!isWell) throw new EndWith(EXIT.failed);
}

async function statusOf(service: Service, path: string): Promise<string> {
  try {
    const { status } = await service.get<{ status: string }>(path);
    return status;
  } catch (error) {
    if (error instanceof ApiError && error.code !== 'INVALID_RESPONSE') return error.message;
    throw error;
  }
}
