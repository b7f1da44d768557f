// The feed: the time from sending a record until a long poll has it, reading many changes in pages beside a bare select of the
// same records, and what creating costs in time while 500 streams replay and then follow live.
// Times are milliseconds.

import { Api } from '../api.ts';
import { type FigureRow, interleaved, quantile, type RowDefinition } from '../figure-rows.ts';
import { bodyOf, type EventFixture, type Side, send, Tenant } from './fixture.ts';
import { openStreams } from './listeners.ts';

const SAMPLES = 150;
const WARM_SAMPLES = 50;
const PAUSE_MS = 2;
const CHANGES = 100_000;
const BULK = 1_000;
const PAGE = 1_000;
const STREAMS = 500;
/** Changes that each stream replays before it is live. */
const REPLAYED = 20;
const CREATES = 200;

/** Rows of long polls, pages, and streams that replay. */
export async function feedRows(fixture: EventFixture): Promise<FigureRow[]> {
  const { bare, run } = fixture;
  const tenant = await Tenant.make(fixture, 'events-feed');
  const { rounds } = run.options;
  const polls: RowDefinition = {
    ...{ id: 'feed-poll', label: 'write to a long poll of `/api/changes`, p50', unit: 'ms' },
    ...{ against: 'bare insert, then answer', must: 2.0, goal: 1.5 },
  };
  const pages: RowDefinition = {
    ...{
      id: 'feed-pages',
      label: `reading ${CHANGES.toLocaleString('en')} changes, ${PAGE} a page`,
      unit: 'records/s',
    },
    ...{ against: 'bare select of the same records', must: 0.5, goal: 0.8, atLeast: true },
  };
  const polled = await interleaved(
    polls,
    rounds,
    () => p50(bare, barePoll(bare)),
    () => p50(tenant.side(), feedPoll(tenant)),
  );
  const since = await cursorOf(tenant);
  await fill(tenant);
  const first = await bareFill(bare);
  const read = await interleaved(
    pages,
    rounds,
    () => barePages(bare, first),
    () => feedPages(tenant, since),
  );
  return [polled, read, await besideReplays(fixture)];
}

/** Resolves once the poll has the marker; the poll is sent before the record is. */
type Poll = (marker: string) => Promise<void>;

function barePoll({ server }: Side): Poll {
  return async (marker) => {
    for (;;) {
      const text = await (await fetch(`http://127.0.0.1:${server.port}/poll`)).text();
      if (text.includes(marker)) return;
    }
  };
}

interface Page {
  items: unknown[];
  nextCursor: string;
  hasMore: boolean;
}

const pageOf = (tenant: Tenant, query: string): Promise<Page> => tenant.api.call<Page>('GET', `/api/changes?${query}`);
const cursorOf = async (tenant: Tenant): Promise<string> => (await pageOf(tenant, 'since=')).nextCursor;

function feedPoll(tenant: Tenant): Poll {
  let since: string | undefined;
  return async (marker) => {
    since ??= await cursorOf(tenant);
    for (;;) {
      const { items, nextCursor } = await pageOf(tenant, `entities=items&wait=30&since=${since}`);
      since = nextCursor;
      if (JSON.stringify(items).includes(marker)) return;
    }
  };
}

async function p50(side: Side, poll: Poll): Promise<number> {
  const latencies: number[] = [];
  for (let at = -WARM_SAMPLES; at < SAMPLES; at++) {
    const marker = `marker-${crypto.randomUUID()}`;
    const seen = poll(marker);
    // The poll waits by then.
    await Bun.sleep(PAUSE_MS * 2);
    const begun = performance.now();
    const sent = send(side, side.target(bodyOf(marker)));
    await seen;
    if (at >= 0) latencies.push(performance.now() - begun);
    await sent;
    await Bun.sleep(PAUSE_MS);
  }
  return quantile(latencies, 0.5);
}

async function fill(tenant: Tenant): Promise<void> {
  const data = JSON.parse(bodyOf('Item'));
  const operations = Array.from({ length: BULK }, () => ({ op: 'create', data }));
  for (let left = CHANGES; left > 0; left -= BULK) {
    await tenant.api.call('POST', '/api/entities/items/records/bulk', { operations });
  }
}

async function feedPages(tenant: Tenant, from: string): Promise<number> {
  const begun = performance.now();
  let count = 0;
  for (let since = from; ; ) {
    const { items, nextCursor, hasMore } = await pageOf(tenant, `entities=items&limit=${PAGE}&since=${since}`);
    count += items.length;
    since = nextCursor;
    if (!hasMore) break;
  }
  if (count < CHANGES) throw new Error(`${count} of ${CHANGES} changes`);
  return (count * 1_000) / (performance.now() - begun);
}

/** The id after which the records come. */
async function bareFill({ server }: Side): Promise<string> {
  const body = bodyOf('Item');
  const answer = await fetch(`http://127.0.0.1:${server.port}/fill?count=${CHANGES}`, { method: 'POST', body });
  return ((await answer.json()) as { after: string }).after;
}

async function barePages({ server }: Side, after: string): Promise<number> {
  const begun = performance.now();
  const api = new Api(server.port, { headers: {} });
  let count = 0;
  for (let id = after; ; ) {
    const { items } = await api.call<{ items: { id: string }[] }>('GET', `/page?after=${id}&limit=${PAGE}`);
    count += items.length;
    const last = items.at(-1);
    if (last === undefined || items.length < PAGE) break;
    id = last.id;
  }
  if (count < CHANGES) throw new Error(`${count} of ${CHANGES} records`);
  return (count * 1_000) / (performance.now() - begun);
}

/** The time of a create, p50, alone and while 500 streams of another tenant replay and then go on live. */
async function besideReplays(fixture: EventFixture): Promise<FigureRow> {
  const writer = await Tenant.make(fixture, 'events-writer');
  const read = await Tenant.make(fixture, 'events-replayed');
  const since = await cursorOf(read);
  for (let at = 0; at < REPLAYED; at++) await send(read.side(), read.side().target(bodyOf(`Item ${at}`)));
  const definition: RowDefinition = {
    ...{ id: 'feed-replays', label: `create, ${STREAMS} streams replay ${REPLAYED} changes and go on live, p50` },
    ...{ against: 'create with none', unit: 'ms', must: 1.1, goal: 1.05 },
  };
  const { address } = read.side();
  const following = { ...address, streamPath: `${address.streamPath}&since=${since}`, firstEvents: 2 };
  return interleaved(
    definition,
    fixture.run.options.rounds,
    () => createP50(writer.side()),
    async () => {
      const opening = openStreams(following, STREAMS);
      const took = await createP50(writer.side());
      await (await opening).close();
      return took;
    },
  );
}

async function createP50(side: Side): Promise<number> {
  const took: number[] = [];
  for (let at = 0; at < CREATES; at++) {
    const begun = performance.now();
    await send(side, side.target(bodyOf(`Item ${at}`)));
    took.push(performance.now() - begun);
    await Bun.sleep(PAUSE_MS);
  }
  return quantile(took, 0.5);
}
