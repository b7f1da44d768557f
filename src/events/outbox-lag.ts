// The metric of the relay's lag: the age of the oldest committed event that has not been relayed, 0 when all have, or when no
// stream is open anywhere and nothing needs to be relayed. The leader knows exactly which events it has relayed, so only its
// process shows a value; if the leader has died and nothing has taken over, every process shows one.
// Contract: neighbours#who-does-what.
import type { App } from '../app.ts';
import { BackgroundRead } from '../runtime/background-read.ts';
import { sql } from '../runtime/sql.ts';
import { type NumberRanges, toMultirange } from './number-ranges.ts';

/** The part of `Relay` that the metric needs. */
interface RelayState {
  readonly unrelayed: { readTo: number; others: NumberRanges } | null;
}

/** A leader without a heartbeat for this long is dead. Seconds. */
const DEAD_AFTER_S = 5;
const SHOWN_FOR_MS = 10_000;

export function registerOutboxLag(app: App, relay: RelayState): void {
  const lag = new BackgroundRead(
    () => readLag(app, relay),
    (error) => app.log.debug('metrics: cannot read the lag of the relay', { error }),
  );
  app.metrics.uncertainGauge(
    'svc_outbox_lag_seconds',
    'Age of the oldest committed event that is not relayed yet.',
    async () => {
      const read = await lag.latest();
      return read === null || performance.now() - read.at > SHOWN_FOR_MS ? null : read.lagS;
    },
  );
}

/** Resolves to null for `lagS` while another process leads. */
async function readLag(app: App, { unrelayed }: RelayState): Promise<{ at: number; lagS: number | null }> {
  const at = performance.now();
  if (unrelayed !== null) return { at, lagS: await ageOfOldest(app, unrelayed.readTo, unrelayed.others) };
  const state = await app.db.first<{ leader: string | null; watermark: number; age_s: number }>(sql`
    select leader, watermark, extract(epoch from clock_timestamp() - heartbeat_at)::float8 as age_s
    from platform.relay where id = 1`);
  if (state?.leader == null) return { at, lagS: 0 };
  if (state.age_s < DEAD_AFTER_S) return { at, lagS: null };
  return { at, lagS: await ageOfOldest(app, state.watermark, []) };
}

/** The age in seconds; 0 when there is no such event. */
async function ageOfOldest(app: App, readTo: number, others: NumberRanges): Promise<number> {
  const found = await app.db.first<{ age_s: number }>(sql`
    select greatest(0, extract(epoch from clock_timestamp() - least(
      (select at from platform.events where seq > ${readTo}::bigint order by seq limit 1),
      (select min(e.at) from unnest(${toMultirange(others)}::text::int8multirange) as o (numbers)
      join platform.events as e on e.seq >= lower(o.numbers) and e.seq < upper(o.numbers))
    )))::float8 as age_s`);
  return found?.age_s ?? 0;
}
