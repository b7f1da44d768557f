// Starts a replay: deliveries of a subscription in a span of time, or since a cursor of the feed, are sent again, with their ids, in their
// order, and behind deliveries of new changes (dispatch/replays.ts). A subscription has one replay at a time.
// Failures: 400 with every problem; 403 for a cursor of another tenant; 404; 409 for an inactive subscription, for one that is being
// replayed, or for too many deliveries; 410 for a cursor older than the events that are kept.
// Contract: decisions#replay.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { cursorOf } from '../../changes/changes.ts';
import { conflict, type Problem } from '../../errors.ts';
import { check } from '../../http/check.ts';
import { closed, oneOf } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { GENERIC_PLANS, sql } from '../../runtime/sql.ts';
import { keptSince } from '../../tenants/tenants.ts';
import { isInSpan, lowestIdOf, type ReplaySpan, startOf } from '../replayed.ts';
import { findSubscription } from './subscriptions.ts';

const { replayMax } = LIMITS.webhook;
const Time = (description: string) =>
  Type.Optional(Type.String({ description, examples: ['2026-01-31T12:00:00.000Z'] }));

export const Replay = closed({
  since: Type.Optional(
    Type.String({ description: 'a cursor of the feed: changes after it; `earliest`: all that are kept; or `from`' }),
  ),
  from: Time('the time of the first change; or `since`'),
  to: Time('changes before this time; default: now'),
  status: oneOf(['failed', 'all'], {
    description: 'only deliveries that have failed, or those that were delivered too',
  }),
});
type Replay = Static<typeof Replay>;
export const Replayed = Type.Object({
  queued: Type.Integer({ minimum: 0, description: 'deliveries that are sent again' }),
});

/** Resolves to the number of deliveries. */
export async function startReplay(
  app: App,
  caller: TenantCaller,
  id: string,
  body: Replay,
): Promise<Static<typeof Replayed>> {
  const subscription = await findSubscription(app, caller, id);
  const span = spanOf(app, caller, body);
  if (!subscription.is_active) throw conflict('the subscription is inactive');
  const found = await app.db.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS}`);
    return tx.first<{ queued: number; last_id: string | null }>(sql`
      select count(*)::int as queued, max(d.id::text)::uuid as last_id from (
        select d.id from platform.webhook_deliveries as d
        where d.subscription_id = ${id}::uuid and d.tenant_id = ${caller.tenant.id}::uuid and d.id >= ${lowestIdOf(span)}::uuid and ${isInSpan(span)}
        order by d.id
        limit ${replayMax + 1}::int
      ) as d`);
  });
  const { queued = 0, last_id: lastId = null } = found ?? {};
  if (queued > replayMax) {
    throw conflict(`a replay has at most ${replayMax.toLocaleString('en')} deliveries; choose a shorter span`);
  }
  if (lastId === null) return { queued: 0 };
  const started = await app.db.first(sql`
    insert into platform.webhook_replays (subscription_id, tenant_id, from_at, to_at, since, is_of_failed, position, last_id)
    values (${id}::uuid, ${caller.tenant.id}::uuid, ${span.from}::timestamptz, ${span.to}::timestamptz,
      ${span.since && JSON.stringify(span.since)}::text::jsonb, ${span.isOfFailed}::boolean, ${lowestIdOf(span)}::uuid,
      ${lastId}::uuid)
    on conflict do nothing
    returning subscription_id`);
  if (started === undefined) throw conflict('the subscription is being replayed already');
  await app.invalidations.publish('webhook', caller.tenant.id);
  return { queued };
}

function spanOf(app: App, caller: TenantCaller, body: Replay): ReplaySpan {
  const { cursor, problem } = cursorOf(app, caller, typeof body.since === 'string' ? body.since : null);
  const values = check(Replay, body, (input) => [...problem, ...spanProblems(input)]);
  const since = cursor?.position ?? null;
  const { to = new Date().toISOString(), status } = values;
  const asked = since === null ? new Date(values.from as string).toISOString() : startOf(since);
  const oldest = new Date(keptSince(app, caller.tenant)).toISOString();
  const from = [asked, oldest].sort()[1] as string;
  return { from, to: new Date(to).toISOString(), since, isOfFailed: status === 'failed' };
}

function spanProblems({ since, from, to }: Partial<Replay>): Problem[] {
  const isTime = (text: string): boolean => /^\d{4}-\d{2}-\d{2}/.test(text) && !Number.isNaN(Date.parse(text));
  const problems: Problem[] = [];
  if (since === '') problems.push({ path: 'since', message: 'must be a cursor' });
  if (since === undefined && from === undefined) problems.push({ path: 'from', message: 'is required, or since' });
  if (since !== undefined && from !== undefined)
    problems.push({ path: 'from', message: 'must not stand beside since' });
  for (const [path, time] of Object.entries({ from, to })) {
    if (time !== undefined && !isTime(time))
      problems.push({ path, message: 'must be a time, as 2026-01-31T12:00:00Z' });
  }
  if (problems.length === 0 && from !== undefined && to !== undefined && Date.parse(to) <= Date.parse(from)) {
    problems.push({ path: 'to', message: 'must be after from' });
  }
  return problems;
}
