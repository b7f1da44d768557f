// The live streams of a thousand tenants: one reader reads all of them, and its cost is spread over their events. Runs on a
// database without a running service, whose own reader would take part. Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Hub } from '../src/events/hub.ts';
import { streamOf } from '../src/events/relay.ts';
import { newId } from '../src/runtime/ids.ts';
import { openAppAlone } from './support/app-alone.ts';

const TENANTS = 1_000;
const EVENTS = 200;

test('events of a thousand tenants that come one after the other are read together, and none is lost', async () => {
  const { app, close } = await openAppAlone();
  let reads = 0;
  const broker = new Proxy(app.broker, {
    get: (target, name) => {
      if (name === 'read') reads++;
      const member = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  const hub = await Hub.open({ ...app, broker });
  const received: string[] = [];
  const lost: string[] = [];
  const tenants = Array.from({ length: TENANTS }, () => newId());
  for (const tenantId of tenants) {
    await hub.subscribe(tenantId, ['items']);
    await hub.attach(tenantId, {
      event: ({ id }) => received.push(id),
      gap: () => lost.push(tenantId),
      drained: async () => undefined,
    });
  }
  await delay(100);
  reads = 0;
  const sent = tenants.slice(0, EVENTS).map((tenantId) => ({ id: newId(), tenantId }));
  for (const { id, tenantId } of sent) {
    await broker.append(streamOf(tenantId), { events: JSON.stringify([{ id }]), after: '0-0' }, 10);
    await delay(1);
  }
  for (let i = 0; i < 500 && received.length < EVENTS; i++) await delay(10);
  expect(received.toSorted()).toEqual(sent.map(({ id }) => id).toSorted());
  expect(lost).toEqual([]);
  expect(reads).toBeLessThan(EVENTS / 3);
  await hub.close();
  await close();
}, 60_000);
