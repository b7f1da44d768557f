// What needs an admin's attention, each with its one action: webhooks that fail, wait or were switched off by the service,
// quotas that are nearly used, and, for operators, a schema that is not as it should be.
import { useQuery } from '@tanstack/react-query';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';
import { subscriptionsQuery } from '../../api/webhooks.ts';
import { useRights } from '../../app/rights.ts';
import { Link } from '../../app/router.tsx';
import { Notice } from '../../parts/states.tsx';
import { bytes, counted } from '../../parts/value.ts';
import { type Usage, useUsage } from './counts.ts';

interface TenantSettings {
  quotas?: Record<string, number | null>;
}

interface SchemaHealth {
  issues: { tenant: string; check: string; table: string }[];
}

interface Warning {
  key: string;
  text: string;
  href: string;
}

/** The share of a quota from which it is worth a warning; the service warns at the same. */
const NEARLY = 0.8;
const EVERY_MS = 60_000;

export function Warnings({ tenant }: { tenant: string }) {
  const all = [...useWebhooks(tenant), ...useQuotas(tenant), ...useSchema(tenant)];
  return all.map(({ key, text, href }) => (
    <Notice
      key={key}
      tone="warn"
      action={
        <Link className="button plain" href={href} aria-label={`See: ${text}`}>
          See
        </Link>
      }
    >
      {text}
    </Notice>
  ));
}

function useWebhooks(tenant: string): Warning[] {
  const { data = [] } = useQuery({ ...subscriptionsQuery(tenant), refetchInterval: EVERY_MS });
  const failing = data.filter(({ health }) => health.state === 'failing');
  const waiting = data.filter(({ health }) => health.state === 'quota_exceeded');
  const ended = data.filter(({ is_active: isActive, disabled_reason: reason }) => !isActive && reason != null);
  const list = `/app/t/${tenant}/webhooks`;
  const hrefOf = (some: typeof data): string => (some.length === 1 ? `${list}/${some[0]?.id}` : list);
  const warnings: Warning[] = [];
  if (failing.length > 0) {
    const said = failing.length === 1 ? '1 webhook is failing' : `${failing.length} webhooks are failing`;
    warnings.push({ key: 'failing', text: `${said}: ${hostsOf(failing)}`, href: hrefOf(failing) });
  }
  if (waiting.length > 0) {
    const said = `${counted(waiting.length, 'webhook waits', 'webhooks wait')} for tomorrow`;
    const text = `${said}, because the deliveries of today are used up: ${hostsOf(waiting)}`;
    warnings.push({ key: 'waiting', text, href: hrefOf(waiting) });
  }
  if (ended.length > 0) {
    const text = `${counted(ended.length, 'webhook was', 'webhooks were')} switched off by the service: ${hostsOf(ended)}`;
    warnings.push({ key: 'ended', text, href: hrefOf(ended) });
  }
  return warnings;
}

/** Host and path of the first, as in "crm.example/hook". */
function hostsOf(some: readonly { url: string }[]): string {
  const [first = ''] = some.map(({ url }) => url.replace(/^https?:\/\//, '').replace(/\/$/, ''));
  return some.length === 1 ? first : `${first} and ${some.length - 1} more`;
}

function useQuotas(tenant: string): Warning[] {
  const { data: settings } = useQuery({
    queryKey: keyOf(tenant, 'tenant'),
    queryFn: ({ signal }) => get<TenantSettings>('/api/tenant', { tenant, signal }),
    retry: false,
  });
  const { data: usage } = useUsage(tenant, true);
  const quotas = settings?.quotas;
  if (quotas === undefined || usage === undefined) return [];
  return usesOf(usage).flatMap(({ quota, used, words }) => {
    const limit = quotas[quota] ?? null;
    if (limit === null || used < limit * NEARLY) return [];
    return [{ key: quota, text: `${tenant} has used ${words(used, limit)}.`, href: `/app/t/${tenant}/usage` }];
  });
}

interface Use {
  quota: string;
  used: number;
  words: (used: number, limit: number) => string;
}

/** What the API tells of the quotas that stand; of those for a minute it tells nothing. */
function usesOf({ now, days }: Usage): Use[] {
  const today = days.find(({ day }) => day === new Date().toISOString().slice(0, 10));
  const of =
    (one: string, many?: string) =>
    (used: number, limit: number): string =>
      `${used.toLocaleString('en')} of ${counted(limit, one, many)}`;
  return [
    { quota: 'records', used: Object.values(now.records).reduce((sum, count) => sum + count, 0), words: of('record') },
    {
      quota: 'storageBytes',
      used: now.storageBytes,
      words: (used, limit) => `${bytes(used)} of ${bytes(limit)}`,
    },
    { quota: 'users', used: now.users, words: of('person', 'people') },
    {
      quota: 'deliveriesPerDay',
      used: today?.deliveries ?? 0,
      words: of('webhook delivery today', 'webhook deliveries today'),
    },
  ];
}

/** The check reads the schemas of all tenants, so only operators may ask, and only once a visit. */
function useSchema(tenant: string): Warning[] {
  const { isOperator } = useRights(tenant);
  const { data } = useQuery({
    queryKey: keyOf(null, 'schema-health'),
    queryFn: ({ signal }) => get<SchemaHealth>('/health/schema', { signal }),
    enabled: isOperator,
    retry: false,
  });
  const count = data?.issues.filter((issue) => issue.tenant === tenant).length ?? 0;
  if (count === 0) return [];
  const text = `The database schema of ${tenant} has ${counted(count, 'defect')}.`;
  return [{ key: 'schema', text, href: '/app/platform/health' }];
}
