// What the tenant and the installation report about themselves: failing webhooks, quotas that are nearly used up, damaged
// schemas. The checks need a tenant admin, and for the schemas the super-admin secret.
// Contract: decisions#health-of-subscriptions, decisions#usage-and-quotas.
import { type CheckContext, type Finding, fault, note, ok, skipped } from './finding.ts';
import type { Identity } from './identity.ts';

interface Subscription {
  id: string;
  url: string;
  is_active: boolean;
  disabled_reason?: string | null;
  health: { state: string };
}

const NEAR = 0.8;

export async function checkState(context: CheckContext, identity: Identity): Promise<Finding[]> {
  const needsAdmin = 'needs a tenant admin';
  const ofTenant =
    identity.isAdmin && identity.tenant !== null
      ? [...(await webhooks(context)), await quotas(context)]
      : [skipped('webhooks', needsAdmin), skipped('quotas', needsAdmin)];
  const schemas =
    identity.kind === 'super_admin' ? await schema(context) : skipped('schema', 'needs the super-admin secret');
  return [...ofTenant, schemas];
}

async function webhooks({ service }: CheckContext): Promise<Finding[]> {
  const subscriptions = await service.get<Subscription[]>('/api/webhooks/subscriptions');
  const findings: Finding[] = [];
  for (const { id, url, health, disabled_reason: reason } of subscriptions) {
    if (health.state === 'ok' || (health.state === 'disabled' && !reason)) continue;
    const detail = await service.get<{ health: { lastError: string | null } }>(`/api/webhooks/subscriptions/${id}`);
    const error = detail.health.lastError ?? reason ?? health.state;
    findings.push(isForbidden(error) ? forbidden(url) : failing(url, health.state, error));
  }
  const all = subscriptions.length;
  return findings.length > 0 ? findings : [ok('webhooks', `${all} webhook subscriptions, none fails`)];
}

function isForbidden(error: string): boolean {
  return /not allowed/.test(error);
}

function forbidden(url: string): Finding {
  const cure =
    'for a receiver on your own machine use `tds webhooks listen --forward-to`; for one in your network set ' +
    'WEBHOOK_ALLOWED_CIDRS where the service runs';
  return fault('receivers', `${url} has a private address, which webhooks do not call`, cure);
}

function failing(url: string, state: string, error: string): Finding {
  const cure = 'mend the receiver, then set is_active to true, or replay what it missed';
  return fault('webhooks', `the webhook to ${url} is ${state}: ${error}`, cure);
}

async function quotas({ service }: CheckContext): Promise<Finding> {
  const { quotas } = await service.get<{ quotas: Record<string, number | null> }>('/api/tenant');
  const { now } = await service.get<{ now: { records: Record<string, number>; storageBytes: number; users: number } }>(
    '/api/tenant/usage',
  );
  const records = Object.values(now.records).reduce((sum, count) => sum + count, 0);
  const used: Record<string, number> = { records, storageBytes: now.storageBytes, users: now.users };
  const near = Object.entries(used).filter(
    ([name, count]) => count >= NEAR * (quotas[name] ?? Number.POSITIVE_INFINITY),
  );
  if (near.length === 0) return ok('quotas', 'no quota is nearly used');
  const text = near.map(([name, count]) => `${count} of ${quotas[name]} ${name}`).join(', ');
  return note('quotas', `the tenant uses ${text}`, 'delete what is not needed, or ask an operator for more');
}

async function schema({ service }: CheckContext): Promise<Finding> {
  const health = await service.get<{ status: string; tenants_degraded: number; issues: { fix: string }[] }>(
    '/health/schema',
  );
  if (health.status === 'healthy') return ok('schema', 'the schemas of all tenants are whole');
  const first = health.issues[0]?.fix ?? '';
  const cure = `POST /health/schema/fix repairs what can be repaired; ${first}`;
  return fault('schema', `the schemas of ${health.tenants_degraded} tenants are damaged`, cure);
}
