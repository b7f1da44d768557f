// The routes that show usage: of their own tenant for tenant admins, and of one tenant or all for operators.
// Failures: 400 for a range of days that is not kept, 404 for an unknown tenant.
// Contract: neighbours#usage-and-quotas.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { invalid, notFound, type Problem } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { pageParameters } from '../http/parameters.ts';
import { ok, pageOf } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { open, pageSchema } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { tenantBySlug } from '../tenants/tenants.ts';
import { type DayRange, reportUsage } from '../usage/report.ts';
import { utcDay } from '../usage/usage-writer.ts';
import { tenantPage } from './tenants.ts';

const { keptDays, shownDays } = LIMITS.usage;
const DAY_MS = 86_400_000;
const Day = (description: string) => Type.Optional(Type.String({ description }));
const Range = {
  from: Day(`the first UTC day; default: ${shownDays} days up to \`to\``),
  to: Day('the last UTC day; default: today'),
};
const Count = Type.Integer({ minimum: 0, examples: [42] });
const Hours = Type.Number({ minimum: 0, examples: [1.5] });
const Usage = Type.Object(
  {
    tenant: Type.String({ examples: ['acme'] }),
    days: Type.Array(
      Type.Object({
        day: Type.String({ examples: ['2026-01-31'] }),
        requests: Count,
        reads: Count,
        writes: Count,
        events: Count,
        deliveries: Count,
        streamHours: Hours,
        socketHours: Hours,
        sentBytes: Count,
      }),
    ),
    now: Type.Object({
      records: Type.Record(Type.String(), Count, { examples: [{ task: 42 }] }),
      storageBytes: Count,
      users: Count,
    }),
  },
  { $id: 'Usage' },
);
const DESCRIPTION = `Days are UTC, both ends are included, and the last ${keptDays} are kept. A read is a request that reads
records; a write is a record created, changed or deleted.`;

const OWN = route({
  id: 'getUsage',
  tag: 'Tenants',
  summary: 'Show what the caller’s tenant uses',
  description: DESCRIPTION,
  access: 'admin',
  query: open(Range),
  ok: [200, Usage],
});
const PLATFORM = route({
  id: 'getPlatformUsage',
  tag: 'Tenants',
  summary: 'Show what tenants use',
  description: `${DESCRIPTION} With \`tenant\`, the usage of one; otherwise a page of all tenants, newest first.`,
  access: 'platform:read',
  query: open({
    ...Range,
    tenant: Type.Optional(Type.String({ description: 'the slug of one tenant', examples: ['demo'] })),
    ...pageParameters(),
  }),
  ok: [200, Type.Union([Usage, pageSchema(Usage)])],
});

export function usageRoutes(app: App) {
  return new Elysia({ name: 'usage' })
    .use(guard(app))
    .get(
      '/api/tenant/usage',
      async ({ caller, query }) => {
        const [usage] = await reportUsage(app, [caller.tenant], rangeOf(query));
        if (usage === undefined) throw notFound('tenant');
        return ok(usage);
      },
      OWN,
    )
    .get('/api/admin/platform/usage', async ({ query }) => ok(await platformUsage(app, query)), PLATFORM);
}

type PlatformQuery = { from?: string; to?: string; tenant?: string; page?: number; limit?: number };

async function platformUsage(app: App, query: PlatformQuery) {
  const range = rangeOf(query);
  if (query.tenant === undefined) {
    const { tenants, total, page, limit } = await tenantPage(app, query);
    return pageOf(await reportUsage(app, tenants, range), total, page, limit);
  }
  const tenant = await tenantBySlug(app, query.tenant);
  const [usage] = tenant === null ? [] : await reportUsage(app, [tenant], range);
  if (usage === undefined) throw notFound('tenant');
  return usage;
}

/** The days of a query. 400 unless they are days, in order and kept. */
function rangeOf(query: { from?: string; to?: string }): DayRange {
  const now = Date.now();
  const problems: Problem[] = [];
  const read = (path: 'from' | 'to', otherwise: string): string => {
    const text = query[path] ?? otherwise;
    const isDay =
      /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && utcDay(Date.parse(text)) === text;
    if (!isDay) problems.push({ path, message: 'must be a day such as 2026-01-31' });
    return isDay ? text : otherwise;
  };
  const to = read('to', utcDay(now));
  const from = read('from', utcDay(Date.parse(to) - (shownDays - 1) * DAY_MS));
  const oldest = utcDay(now - (keptDays - 1) * DAY_MS);
  if (problems.length === 0 && from > to) problems.push({ path: 'from', message: 'must not be after to' });
  if (problems.length === 0 && query.from !== undefined && from < oldest) {
    problems.push({ path: 'from', message: `must not be before ${oldest}: usage is kept ${keptDays} days` });
  }
  if (problems.length === 0 && Date.parse(to) - Date.parse(from) >= keptDays * DAY_MS) {
    problems.push({ path: 'to', message: `must be less than ${keptDays} days after from` });
  }
  if (problems.length > 0) throw invalid(problems);
  return { from, to };
}
