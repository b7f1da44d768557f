// What webhooks cost and hold up: CPU of one delivery, creating records that have some, draining a backlog, and
// whether receivers that never answer are anybody else's trouble.

import { Api } from '../api.ts';
import { residentMiB } from '../cpu.ts';
import { item } from '../dataset.ts';
import { compare } from '../measure.ts';
import type { Gauge } from '../report.ts';
import { until } from './listeners.ts';
import { cpuOf, type EventRow, interleaved, quantile, row } from './rows.ts';
import { bodyOf, createMany, createShot, type EventWorld, send, Tenant } from './world.ts';

const DELIVERIES = 1_500;
/** About what the body of one of the service's deliveries holds. */
const BODY_BYTES = 600;
const ARRIVAL_MS = 300_000;
const SMALL_BACKLOG = 1_000;
const MEMORY_SAMPLE_MS = 100;
const RECEIVERS = 100;
const HOLED = 50;
/** Records of a round, and the pause between two of them, whose events go to all receivers. */
const ROUND_EVENTS = 24;
const PAUSE_MS = 150;

/** CPU of a delivery beside its create, against a signed POST that nothing is kept of. */
export async function costRow(world: EventWorld): Promise<EventRow> {
  const { receiver, bare, run } = world;
  const tenant = await Tenant.make(world, 'events-cost', 'hooked');
  await tenant.subscribe('hooked', receiver.url('ok'));
  const [plain, hooked] = [tenant.side(), tenant.side('hooked')];
  const url = encodeURIComponent(receiver.url('ok'));
  const posts = { method: 'POST', path: `/posts?url=${url}&count=${DELIVERIES}&bytes=${BODY_BYTES}`, body: '' };
  const aim = { id: 'delivery', label: 'webhook delivery, stored and signed', against: 'bare signed POST' };
  return interleaved(
    { ...aim, unit: 'us CPU beside the create', must: 12, goal: 8 },
    run.options.rounds,
    async () => (await cpuOf(bare, run.scratch, () => send(bare, posts))) / DELIVERIES,
    async () => {
      const alone = await cpuOf(plain, run.scratch, () => createMany(plain, DELIVERIES));
      const together = await cpuOf(hooked, run.scratch, async () => {
        await createMany(hooked, DELIVERIES);
        await world.drained();
      });
      return (together - alone) / DELIVERIES;
    },
  );
}

/** Creates a second while each is delivered to one or ten receivers, against such that nobody subscribes to. */
export async function matchingRows(world: EventWorld): Promise<EventRow[]> {
  const { receiver, run } = world;
  const tenant = await Tenant.make(world, 'events-matching', 'hooked1', 'hooked10');
  const rows: EventRow[] = [];
  for (const [subscribers, must, goal] of [
    [1, 0.8, 0.9],
    [10, 0.5, 0.6],
  ] as const) {
    const entity = `hooked${subscribers}`;
    for (let at = 0; at < subscribers; at++) await tenant.subscribe(entity, receiver.url('ok', `${entity}-${at}`));
    const label = `create, ${subscribers} matching subscription${subscribers > 1 ? 's' : ''}`;
    const aim = { id: `create-${entity}`, label, against: 'create with none', unit: 'req/s', must, goal };
    const drained = () => world.drained();
    const [plain, hooked] = [createShot(tenant.side(), drained), createShot(tenant.side(entity), drained)];
    rows.push(
      await row({ ...aim, atLeast: true }, async () => {
        const { baseline, subject } = await compare(plain, hooked, run.options, run.scratch);
        return { baseline: baseline.requestsPerSecond, subject: subject.requestsPerSecond };
      }),
    );
    await world.drained();
  }
  return rows;
}

/** Time a delivery of a large backlog, against one of a small one; and what memory grows by meanwhile. */
export async function backlogRow(world: EventWorld, size: number): Promise<{ rows: EventRow[]; gauges: Gauge[] }> {
  const tenant = await Tenant.make(world, 'events-backlog', 'hooked');
  await tenant.subscribe('hooked', world.receiver.url('held'));
  const count = (value: number) => value.toLocaleString('en-US');
  const aim = {
    id: 'backlog',
    label: `draining ${count(size)} deliveries`,
    against: `draining ${count(SMALL_BACKLOG)}`,
  };
  const gauge = { id: 'backlog-memory', label: `memory that draining ${count(size)} adds`, unit: 'MiB' };
  let grown: number | undefined;
  const measured = await row({ ...aim, unit: 'us a delivery', must: 1.0, goal: 0.8 }, async () => {
    await drain(world, tenant, SMALL_BACKLOG);
    const small = await drain(world, tenant, SMALL_BACKLOG);
    const large = await drain(world, tenant, size);
    grown = large.grownMiB;
    return { baseline: small.microseconds, subject: large.microseconds };
  });
  return { rows: [measured], gauges: [{ ...gauge, value: grown, must: 48, goal: 24, failure: measured.failure }] };
}

/** Piles deliveries up behind one that is not answered, then answers. */
async function drain(world: EventWorld, tenant: Tenant, size: number) {
  const { receiver, server } = world;
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
  await world.drained();
  return { microseconds: (elapsed * 1_000) / size, grownMiB: peak - resident };
}

/** p99 from a write to the healthy receivers, when half of all never answer and when all do. */
export async function blackHoleRow(world: EventWorld): Promise<EventRow> {
  const tenant = await Tenant.make(world, 'events-black-holes', 'healthy', 'holed');
  for (let at = 0; at < RECEIVERS; at++) {
    await tenant.subscribe('healthy', world.receiver.url('ok', `watched-${at}`));
    await tenant.subscribe('holed', world.receiver.url(at < HOLED ? 'never' : 'ok', `watched-${at}`));
  }
  const label = `healthy receiver, ${HOLED} of ${RECEIVERS} black-holed, p99`;
  const aim = { id: 'black-holes', label, against: 'none black-holed', unit: 'ms', must: 1.5, goal: 1.2 };
  return interleaved(
    aim,
    world.run.options.rounds,
    (round) => healthyP99(world, tenant, 'healthy', `all-${round}`, RECEIVERS),
    (round) => healthyP99(world, tenant, 'holed', `half-${round}`, RECEIVERS - HOLED),
  );
}

async function healthyP99(world: EventWorld, tenant: Tenant, entity: string, mark: string, receivers: number) {
  const side = tenant.side(entity);
  const sent = new Map<string, number>();
  const latencies: number[] = [];
  world.receiver.onPost = (path, body) => {
    const begun = sent.get(/"title":"([^"]*)"/.exec(body)?.[1] ?? '');
    const isWatched = Number(/-(\d+)$/.exec(path)?.[1]) >= HOLED;
    if (begun !== undefined && isWatched) latencies.push(performance.now() - begun);
  };
  for (let at = 0; at < ROUND_EVENTS; at++) {
    const title = `${mark}-${at}`;
    sent.set(title, performance.now());
    await send(side, side.target(bodyOf(title)));
    await Bun.sleep(PAUSE_MS);
  }
  await until('the healthy receivers', () => latencies.length >= ROUND_EVENTS * Math.min(HOLED, receivers));
  world.receiver.onPost = undefined;
  return quantile(latencies, 0.99);
}
