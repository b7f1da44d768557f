// As many long polls of one tenant as a process admits: all wait, all get the change, other tenants notice nothing, and further
// ones are refused until a place is free.
// Contract: feed#long-polls.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import { type RawConnection, rawGet } from './support/raw.ts';
import { type Answer, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { until } from './support/streams.ts';

const { waitingPerTenant } = LIMITS.changes;
const DEALS = '/api/entities/deals/records';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const newTenant = () => tenantWithEntities(service, ['deals'], fields('title text'));
const cursorOf = async (tenant: TestTenant): Promise<string> => (await tenant.get('/api/changes')).body.data.nextCursor;

/** A poll on its own connection, since the runtime's client opens fewer at once. */
const poll = ({ key }: TestTenant, since: string): Promise<RawConnection> =>
  rawGet(service.url, `/api/changes?wait=30&since=${since}`, { 'X-API-Key': key, Connection: 'close' });

async function waiting(): Promise<number> {
  const { text } = await service.admin.get('/metrics');
  return Number(/^svc_changes_waiting (\d+)$/m.exec(text)?.[1]);
}

/** Until all of them wait. Those that have ended meanwhile, since it took longer than they wait, are made again. */
async function awaitWaiting(polls: RawConnection[], again: () => Promise<RawConnection>): Promise<void> {
  for (const endsAt = performance.now() + 80_000; (await waiting()) < polls.length; await Bun.sleep(50)) {
    if (performance.now() > endsAt) throw new Error(`${await waiting()} of ${polls.length} wait`);
    const going = polls.filter(({ hasEnded }) => !hasEnded);
    const made = await Promise.all(Array.from({ length: polls.length - going.length }, again));
    polls.splice(0, polls.length, ...going, ...made);
  }
}

/**
 * The response to one more while all wait. On a busy machine some may have ended before it is sent, and this process may not
 * have read that yet: such a response is followed by another try.
 */
async function beyond(tenant: TestTenant, since: string, polls: RawConnection[]): Promise<Answer> {
  let answer = await tenant.get(`/api/changes?wait=1&since=${since}`);
  for (let tries = 1; answer.status === 200 && tries < 10; tries++) {
    await awaitWaiting(polls, () => poll(tenant, since));
    answer = await tenant.get(`/api/changes?wait=1&since=${since}`);
  }
  return answer;
}

const titles = ({ text }: RawConnection): string[] => {
  const body = text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1);
  return JSON.parse(body).data.items.map(({ data }: Json) => data.title);
};

test(`${waitingPerTenant} requests of a tenant wait at once, further ones get 429, and all get the change`, async () => {
  const [many, few] = [await newTenant(), await newTenant()];
  const since = await cursorOf(many);
  const again = (): Promise<RawConnection> => poll(many, since);
  const polls = await Promise.all(Array.from({ length: waitingPerTenant }, again));
  const close = (): void => {
    for (const one of polls) one.close();
  };
  try {
    await awaitWaiting(polls, again);
    for (let i = 0; i < 3; i++) {
      const { status, headers, body } = await beyond(many, since, polls);
      expect([status, body.error?.code, headers.get('retry-after')]).toEqual([429, 'RATE_LIMITED', '5']);
    }
    // Requests that do not wait, and other tenants, are not refused.
    expect((await many.get(`/api/changes?since=${since}`)).status).toBe(200);
    const other = few.get(`/api/changes?wait=30&since=${await cursorOf(few)}`);
    await createRecord(few, DEALS, { title: 'few' });
    expect((await other).body.data.items).toHaveLength(1);
    // A client that disconnects frees its place.
    polls.pop()?.close();
    polls.push(await again());
    await awaitWaiting(polls, again);
    const startedAt = performance.now();
    await createRecord(many, DEALS, { title: 'many' });
    const isAnswered = (): boolean => polls.every(({ hasEnded }) => hasEnded);
    await until(isAnswered, 60_000, () => `${polls.filter(({ hasEnded }) => !hasEnded).length} are not answered`);
    console.log(`${waitingPerTenant} long polls answered within ${Math.round(performance.now() - startedAt)} ms`);
    expect(polls.map(({ status }) => status).filter((status) => status !== 200)).toEqual([]);
    // Those that had waited for 30 s before the change was made are told so, and get it when they ask again.
    const late = polls.filter((one) => titles(one).length === 0);
    expect(late.length).toBeLessThan(polls.length / 2);
    expect(polls.filter((one) => !late.includes(one) && titles(one).join() !== 'many')).toEqual([]);
    for (const _ of late.slice(0, 1)) {
      expect((await many.get(`/api/changes?since=${since}`)).body.data.items).toHaveLength(1);
    }
  } finally {
    close();
  }
}, 240_000);
