// What the past of a record costs: a page of the history of a record with 1,000 versions, spread evenly among a million events
// of one day, and the record as it was in the middle of them, against a get by id. The events are inserted into the service's database.
// Sizes are numbers of events.

import postgres from 'postgres';
import { Api } from './api.ts';
import type { Workloads } from './fixture.ts';
import type { Workload } from './measure.ts';
import type { Comparison } from './rows.ts';
import type { Bench } from './run.ts';

const VERSIONS = 1_000;

/** Fills the events, which takes a minute, and compares. */
export async function historyComparisons(bench: Bench, service: Workloads, events: number): Promise<Comparison[]> {
  const { fixture, scratch, log } = bench;
  log(`filling ${events} events`);
  const api = new Api(fixture.server.port, { key: fixture.key });
  const [id] = fixture.ids.items;
  if (id === undefined) throw new Error('there is no record');
  const path = `/api/entities/items/records/${id}`;
  await api.call('PATCH', path, {});
  await fillEvents(scratch.service.url, id, events);
  await scratch.vacuum();
  const key = fixture.key;
  const { items } = await api.call<{ items: { version: number; at: string }[] }>('GET', `${path}/history`);
  const [first, last] = [items[0], items.at(-1)];
  if (first === undefined || last === undefined) throw new Error('the record has no history');
  const row = (name: string, label: string, rest: string, problem: Workload['problem']): Comparison => ({
    id: name,
    label: `${label}, ${events.toLocaleString('en-US')} events`,
    against: 'get by id',
    baseline: service.get,
    subject: { server: fixture.server, targets: () => [{ method: 'GET', path: `${path}${rest}`, key }], problem },
    must: 10,
    goal: 5,
  });
  return [
    row('history', `history, 20 of ${VERSIONS} versions`, '/history', (data) =>
      (data as { items: unknown[] }).items.length === 20 ? null : 'not 20 versions',
    ),
    row('as-of', `as of a time, ${VERSIONS} versions`, `?asOf=${last.at}`, (data) =>
      (data as { id?: string }).id === id ? null : 'not the record',
    ),
  ];
}

/** Copies of the record's event for it and, in turns, for others: their versions end before its present one. */
async function fillEvents(url: string, id: string, events: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const every = Math.floor(events / VERSIONS);
  await sql`
    update platform.events set version = ${VERSIONS + 1} where record_id = ${id} and type = 'record.updated'`;
  await sql`
    insert into platform.events (id, at, tenant_id, entity_id, entity, record_id, type, version, data, old, created_at, updated_at,
      created_by, updated_by, data_bytes, actor, triggered_by)
    select gen_random_uuid(), e.at, e.tenant_id, e.entity_id, e.entity,
      case when n.n % ${every} = 0 then e.record_id else md5((n.n % 100000)::text)::uuid end, 'record.updated',
      case when n.n % ${every} = 0 then n.n / ${every} + 1 else n.n end, e.data,
      jsonb_build_object('at', e.updated_at, 'by', e.updated_by, 'f1', n.n::text), e.created_at, e.updated_at, e.created_by,
      e.updated_by, e.data_bytes, e.actor, e.triggered_by
    from (
      select * from platform.events where record_id = ${id} and type = 'record.updated' order by seq desc limit 1
    ) as e
    cross join generate_series(1, ${events}::int) as n (n)`;
  await sql.end();
}
