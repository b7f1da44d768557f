// The cost and isolation of webhooks: CPU of one delivery, creating records that cause deliveries, draining a backlog, and
// the delay of healthy receivers beside others that never answer. CPU in microseconds, times in milliseconds.
// The receiver runs in the process of the bench.

import { Api } from '../api.ts';
import { residentMiB } from '../cpu.ts';
import { item } from '../dataset.ts';
import { cpuOf, type FigureRow, interleaved, quantile, row } from '../figure-rows.ts';
import { compare } from '../measure.ts';
import type { Gauge } from '../verdict.ts';
import { bodyOf, createMany, createWorkload, type EventFixture, send, Tenant } from './fixture.ts';
import { until } from './listeners.ts';

const DELIVERIES = 1_500;
/** About the size of a delivery's body. */
const BODY_BYTES = 600;
const ARRIVAL_MS = 300_000;
const SMALL_BACKLOG = 1_000;
const MEMORY_SAMPLE_MS = 100;
const RECEIVERS = 100;
const BLACK_HOLED = 50;
/** Records of a round, each sent to all receivers, and the pause between two of them. */
const ROUND_EVENTS = 24;
const PAUSE_MS = 150;

/** CPU of a delivery without its create, against a signed POST that is not stored. */
export async function costRow(fixture: EventFixture): Promise<FigureRow> {
  const { receiver, bare, run } = fixture;
  const tenant = await Tenant.make(fixture, 'events-cost', 'hooked');
  await tenant.subscribe('hooked', receiver.url('ok'));
  const [plain, hooked] = [tenant.side(), tenant.side('hooked')];
  const url = encodeURIComponent(receiver.url('ok'));
  const posts = { method: 'POST', path: `/posts?url=${url}&count=${DELIVERIES}&bytes=${BODY_BYTES}`, body: '' };
  const definition = { id: 'delivery', label: 'webhook delivery, stored and signed', against: 'bare signed POST' };
  return interleaved(
    { ...definition, unit: 'us CPU beside the create', must: 10, goal: 6 },
    run.options.rounds,
    async () => (await cpuOf(bare, run.scratch, () => send(bare, posts))) / DELIVERIES,
    async () => {
      const alone = await cpuOf(plain, run.scratch, () => createMany(plain, DELIVERIES));
      const together = await cpuOf(hooked, run.scratch, async () => {
        await createMany(hooked, DELIVERIES);
        await fixture.drained();
      });
      return (together - alone) / DELIVERIES;
    },
  );
}

/** Creates per second with one or ten deliveries each, some for a role and with filters, against creates without a subscription. */
export async function matchingRows(fixture: EventFixture): Promise<FigureRow[]> {
  const { receiver, run } = fixture;
  const tenant = await Tenant.make(fixture, 'events-matching', 'hooked1', 'hooked10', 'judged10');
  const task = { rowFilter: 'price >= 0', excludeFields: ['notes'] };
  await tenant.api.call('POST', '/api/roles', {
    name: 'partner',
    permissions: { judged10: ['read'] },
    entities: { judged10: task },
  });
  const rows: FigureRow[] = [];
  for (const [entity, subscribers, must, goal] of [
    ['hooked1', 1, 0.8, 0.9],
    ['hooked10', 10, 0.5, 0.6],
    ['judged10', 10, 0.5, 0.6],
  ] as const) {
    const isJudged = entity === 'judged10';
    for (let at = 0; at < subscribers; at++) {
      // All match, and none has the filters of another.
      const more = isJudged ? { role: 'partner', filters: `amount >= 0 AND title != "${at}"` } : {};
      await tenant.subscribe(entity, receiver.url('ok', `${entity}-${at}`), undefined, more);
    }
    const kind = isJudged ? 'for a role, with filters' : 'matching';
    const label = `create, ${subscribers} subscription${subscribers > 1 ? 's' : ''} ${kind}`;
    const definition = { id: `create-${entity}`, label, against: 'create with none', unit: 'req/s', must, goal };
    const drained = () => fixture.drained();
    const [plain, hooked] = [createWorkload(tenant.side(), drained), createWorkload(tenant.side(entity), drained)];
    rows.push(
      await row({ ...definition, atLeast: true }, async () => {
        const pairs = await compare(plain, hooked, run.options, run.scratch);
        return pairs.map(({ baseline, subject }) => {
          return { baseline: baseline.requestsPerSecond, subject: subject.requestsPerSecond };
        });
      }),
    );
    await fixture.drained();
  }
  return rows;
}

/** Time per delivery of a large backlog, against a small one; and the growth of memory meanwhile. */
export async function backlogRow(fixture: EventFixture, size: number): Promise<{ rows: FigureRow[]; gauges: Gauge[] }> {
  const tenant = await Tenant.make(fixture, 'events-backlog', 'hooked');
  await tenant.subscribe('hooked', fixture.receiver.url('held'));
  const count = (value: number) => value.toLocaleString('en-US');
  const definition = {
    id: 'backlog',
    label: `draining ${count(size)} deliveries`,
    against: `draining ${count(SMALL_BACKLOG)}`,
  };
  const gauge = { id: 'backlog-memory', label: `memory that draining ${count(size)} adds`, unit: 'MiB' };
  let grown: number | undefined;
  const measured = await row({ ...definition, unit: 'us a delivery', must: 1.0, goal: 0.8 }, async () => {
    await drain(fixture, tenant, SMALL_BACKLOG);
    const small = await drain(fixture, tenant, SMALL_BACKLOG);
    const large = await drain(fixture, tenant, size);
    grown = large.grownMiB;
    return [{ baseline: small.microseconds, subject: large.microseconds }];
  });
  return { rows: [measured], gauges: [{ ...gauge, value: grown, must: 48, goal: 24, failure: measured.failure }] };
}

/** Queues deliveries behind one that is not answered, then answers it. */
async function drain(fixture: EventFixture, tenant: Tenant, size: number) {
  const { receiver, server } = fixture;
  receiver.hold();
  const before = receiver.count;
  await new Api(server.port, { key: tenant.key }).importRecords('hooked', size, (at) => item(at, size, tenant.people));
  const resident = residentMiB(server.pid);
  let peak = resident;
  const sampling = setInterval(() => {
    peak = Math.max(peak, residentMiB(server.pid));
  }, MEMORY_SAMPLE_MS);
  const begun = performance.now();
  receiver.release();
  await until('the backlog', () => receiver.count - before >= size, ARRIVAL_MS);
  clearInterval(sampling);
  const elapsed = performance.now() - begun;
  await fixture.drained();
  return { microseconds: (elapsed * 1_000) / size, grownMiB: peak - resident };
}

/** p99 of the delay from a write to the healthy receivers: half of all receivers never answer, against all answer. */
export async function blackHoleRow(fixture: EventFixture): Promise<FigureRow> {
  const tenant = await Tenant.make(fixture, 'events-black-holes', 'healthy', 'holed');
  for (let at = 0; at < RECEIVERS; at++) {
    await tenant.subscribe('healthy', fixture.receiver.url('ok', `watched-${at}`));
    await tenant.subscribe('holed', fixture.receiver.url(at < BLACK_HOLED ? 'never' : 'ok', `watched-${at}`));
  }
  const label = `healthy receiver, ${BLACK_HOLED} of ${RECEIVERS} black-holed, p99`;
  const definition = { id: 'black-holes', label, against: 'none black-holed', unit: 'ms', must: 1.5, goal: 1.2 };
  return interleaved(
    definition,
    fixture.run.options.rounds,
    (round) => healthyP99(fixture, tenant, 'healthy', `all-${round}`, RECEIVERS),
    (round) => healthyP99(fixture, tenant, 'holed', `half-${round}`, RECEIVERS - BLACK_HOLED),
  );
}

async function healthyP99(fixture: EventFixture, tenant: Tenant, entity: string, mark: string, receivers: number) {
  const side = tenant.side(entity);
  const sent = new Map<string, number>();
  const latencies: number[] = [];
  fixture.receiver.onPost = (path, body) => {
    const begun = sent.get(/"title":"([^"]*)"/.exec(body)?.[1] ?? '');
    const isWatched = Number(/-(\d+)$/.exec(path)?.[1]) >= BLACK_HOLED;
    if (begun !== undefined && isWatched) latencies.push(performance.now() - begun);
  };
  for (let at = 0; at < ROUND_EVENTS; at++) {
    const title = `${mark}-${at}`;
    sent.set(title, performance.now());
    await send(side, side.target(bodyOf(title)));
    await Bun.sleep(PAUSE_MS);
  }
  await until('the healthy receivers', () => latencies.length >= ROUND_EVENTS * Math.min(BLACK_HOLED, receivers));
  fixture.receiver.onPost = undefined;
  return quantile(latencies, 0.99);
}
