// Starts a replay: the deliveries of a subscription in a span of time are sent again, with their ids, in their order, behind
// those of new changes (dispatch/replays.ts). One replay of a subscription at a time.
// Failures: 400 with every problem, 404, 409 for an inactive subscription, one that is being replayed, or too many deliveries.
// Contract: decisions#replay.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { conflict, type Problem } from '../../errors.ts';
import { check } from '../../http/check.ts';
import { closed, oneOf } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { lowestIdAt } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import { findSubscription } from './subscriptions.ts';

const { replayMax } = LIMITS.webhook;
const Time = (description: string) => Type.String({ description, examples: ['2026-01-31T12:00:00.000Z'] });

export const Replay = closed({
  from: Time('the time of the first change'),
  to: Type.Optional(Time('changes before this time; default: now')),
  status: oneOf(['failed', 'all'], {
    description: 'only deliveries that have failed, or those that were delivered too',
  }),
});
export const Replayed = Type.Object({
  queued: Type.Integer({ minimum: 0, description: 'deliveries that are sent again' }),
});

/** Resolves to the number of deliveries. */
export async function startReplay(
  app: App,
  caller: TenantCaller,
  id: string,
  body: Static<typeof Replay>,
): Promise<Static<typeof Replayed>> {
  const subscription = await findSubscription(app, caller, id);
  const { from, to = new Date().toISOString(), status } = check(Replay, body, timeProblems);
  if (!subscription.is_active) throw conflict('the subscription is inactive');
  const [fromAt, toAt] = [new Date(from).toISOString(), new Date(to).toISOString()];
  // Literals, so that the index of failed deliveries serves one of them.
  const isMeant = status === 'failed' ? sql`d.status = 'failed'` : sql`d.status <> 'pending'`;
  const found = await app.db.first<{ queued: number; last_id: string | null }>(sql`
    select count(*)::int as queued, max(d.id::text)::uuid as last_id from (
      select d.id from platform.webhook_deliveries as d
      where d.subscription_id = ${id}::uuid and d.id >= ${lowestIdAt(fromAt)}::uuid and ${isMeant}
        and d.event_at >= ${fromAt}::timestamptz and d.event_at < ${toAt}::timestamptz
      order by d.id
      limit ${replayMax + 1}::int
    ) as d`);
  const { queued = 0, last_id: lastId = null } = found ?? {};
  if (queued > replayMax) {
    throw conflict(`a replay has at most ${replayMax.toLocaleString('en')} deliveries; choose a shorter span`);
  }
  if (lastId === null) return { queued: 0 };
  const started = await app.db.first(sql`
    insert into platform.webhook_replays (subscription_id, tenant_id, from_at, to_at, is_of_failed, position, last_id)
    values (${id}::uuid, ${caller.tenant.id}::uuid, ${fromAt}::timestamptz, ${toAt}::timestamptz,
      ${status === 'failed'}::boolean, ${lowestIdAt(fromAt)}::uuid, ${lastId}::uuid)
    on conflict do nothing
    returning subscription_id`);
  if (started === undefined) throw conflict('the subscription is being replayed already');
  await app.invalidations.publish('webhook', caller.tenant.id);
  return { queued };
}

function timeProblems({ from = '', to }: Partial<Static<typeof Replay>>): Problem[] {
  const isTime = (text: string): boolean => /^\d{4}-\d{2}-\d{2}/.test(text) && !Number.isNaN(Date.parse(text));
  const problems: Problem[] = [];
  if (from !== '' && !isTime(from)) problems.push({ path: 'from', message: 'must be a time, as 2026-01-31T12:00:00Z' });
  if (to !== undefined && !isTime(to))
    problems.push({ path: 'to', message: 'must be a time, as 2026-01-31T12:00:00Z' });
  if (problems.length === 0 && to !== undefined && Date.parse(to) <= Date.parse(from)) {
    problems.push({ path: 'to', message: 'must be after from' });
  }
  return problems;
}
