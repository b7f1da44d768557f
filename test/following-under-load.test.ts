// Connections that follow the feed while live events are dropped because too many wait, and while another one begins to follow.
// The tests replace parts of the service to make events wait, so the service must run in this process.
// Contract: feed#resume, feed#filtered-subscriptions.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import { feedHeadsOf } from '../src/events/feed-heads.ts';
import { TenantConnections } from '../src/realtime/tenant-connections.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import { startService, type TestService } from './support/service.ts';
import { connectEvents, subscribeSocket } from './support/streams.ts';

const IS_APART = process.env.SERVICE_RUNTIME === 'deno';
const DEALS = '/api/entities/deals/records';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
const keep = closeAfterEach();

const newTenant = () => tenantWithEntities(service, ['deals', 'tasks'], fields('title text', 'amount integer'));

test('a WebSocket subscription with a condition and no cursor shows nothing of before its answer, and all of after', async () => {
  if (IS_APART) return;
  const other = await newTenant();
  const socket = keep(await subscribeSocket(service.url, await adminSession(service, other)));
  const heads = feedHeadsOf(service.app);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const take = heads.take.bind(heads);
  heads.take = async () => {
    ask();
    await released;
    return take();
  };
  try {
    socket.send({ type: 'subscribe', entity: 'deals', filters: 'amount > 10' });
    await asked;
    for (const amount of [1, 11]) await createRecord(other, DEALS, { title: 'before', amount });
    release();
    expect(await socket.next()).toEqual({ type: 'subscribed', entity: 'deals' });
    await createRecord(other, DEALS, { title: 'after', amount: 12 });
    expect(await socket.next()).toMatchObject({ type: 'record.created', data: { title: 'after' } });
  } finally {
    release();
    heads.take = take;
  }
});

test('when too many events wait, streams and sockets that follow the feed continue from their position, and others are closed', async () => {
  if (IS_APART) return;
  const other = await newTenant();
  const token = await adminSession(service, other);
  const socket = keep(await subscribeSocket(service.url, token));
  for (const entity of ['deals', 'tasks']) {
    expect(await socket.ask({ type: 'subscribe', entity, filters: 'amount > 10' })).toEqual({
      type: 'subscribed',
      entity,
    });
  }
  const mixed = keep(await subscribeSocket(service.url, token, 'tasks'));
  expect((await mixed.ask({ type: 'subscribe', entity: 'deals', filters: 'amount > 10' })).type).toBe('subscribed');
  const idle = keep(await subscribeSocket(service.url, token));
  const plain = keep(await connectEvents(service.url, other.slug, other.key));
  const following = keep(
    await connectEvents(service.url, other.slug, other.key, '?entities=deals&filters=amount+%3E+10'),
  );
  const { event } = TenantConnections.prototype;
  // Each event as if 5,000 others waited before it.
  TenantConnections.prototype.event = function (this: TenantConnections, ...of) {
    for (let i = 0; i <= 5_000; i++) event.apply(this, of);
  };
  try {
    for (let amount = 9; amount <= 13; amount++) await createRecord(other, DEALS, { title: `${amount}`, amount });
    await createRecord(other, '/api/entities/tasks/records', { title: 'task', amount: 14 });
    const titles: string[] = [];
    for (let i = 0; i < 4; i++) titles.push((await socket.next()).data.title);
    expect(titles.toSorted()).toEqual(['11', '12', '13', 'task']);
    for (const title of ['11', '12', '13']) expect((await following.next()).data.data.fields.title).toBe(title);
    expect(await mixed.ended()).toBe(1013);
    await plain.ended();
    expect(await idle.ask({ type: 'ping' })).toEqual({ type: 'pong' });
    expect(socket.closed).toBeNull();
  } finally {
    TenantConnections.prototype.event = event;
  }
});
