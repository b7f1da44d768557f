// Connections that have not sent their `auth`: so many of one address, and so many in all, may be open in a process. One
// more is told and closed, and those that are authenticated do not count. Addresses come from a trusted proxy here.
// Contract: decisions#websocket.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { UnauthenticatedLimit } from '../src/realtime/connection-limits.ts';
import { newAddress } from './support/addresses.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { startService, type TestService } from './support/service.ts';
import { openSocket, type TestSocket } from './support/streams.ts';

const { waitingPerAddress } = LIMITS.socket;
const AT_ONCE = 100;
type Address = Record<string, string>;

let service: TestService;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const connect = async (address: Address): Promise<TestSocket> => keep(await openSocket(service.url, address));

/** A connection that waits for its `auth`; null for one that is refused. */
async function waiting(address: Address): Promise<TestSocket | null> {
  const socket = await connect(address);
  const { type, code } = await socket.ask({ type: 'ping' });
  if (type === 'error') return socket;
  expect([type, code, await socket.ended()]).toEqual(['auth_error', 'limit_exceeded', 1013]);
  return null;
}

const isRefused = async (address: Address): Promise<boolean> => (await waiting(address)) === null;

/** As many as may wait. Those that went before are gone a moment later. */
async function fill(address: Address, count: number): Promise<void> {
  for (let missing = count; missing > 0; ) {
    const some = await Promise.all(Array.from({ length: Math.min(missing, AT_ONCE) }, () => waiting(address)));
    missing -= some.filter((socket) => socket !== null).length;
  }
}

test('so many of an address may wait; who is authenticated or gone makes room, and others are not kept out', async () => {
  const token = await adminSession(service, await service.tenant());
  const address = newAddress();
  const [first, second] = [await waiting(address), await waiting(address)];
  await fill(address, waitingPerAddress - 2);
  expect(await isRefused(address)).toBe(true);
  expect(await isRefused(newAddress())).toBe(false);
  expect(await first?.ask({ type: 'auth', token: 'svc_pkey_nonsense' })).toMatchObject({ type: 'auth_error' });
  expect(await isRefused(address)).toBe(true);
  expect(await first?.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
  expect(await isRefused(address)).toBe(false);
  expect(await isRefused(address)).toBe(true);
  second?.close();
  await fill(address, 1);
  expect(await isRefused(address)).toBe(true);
  expect(await first?.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  first?.close();
  await first?.ended();
  expect(await isRefused(address)).toBe(true);
});

test('an address cannot be made up: only what the proxy says counts', async () => {
  const { 'x-forwarded-for': address } = newAddress();
  const madeUp = (): Address => ({ 'x-forwarded-for': `${newAddress()['x-forwarded-for']}, ${address}` });
  for (let left = waitingPerAddress; left > 0; left -= AT_ONCE) {
    const some = Array.from({ length: Math.min(left, AT_ONCE) }, () => isRefused(madeUp()));
    expect(await Promise.all(some)).not.toContain(true);
  }
  expect(await isRefused(madeUp())).toBe(true);
});

test('so many may wait in all, whatever their addresses; nobody is remembered', () => {
  const limit = new UnauthenticatedLimit({ waitingPerAddress: 2, waiting: 3 });
  expect(['a', 'a', 'a', 'b', 'b', 'c'].map((address) => limit.acquire(address))).toEqual([
    ...[true, true, false],
    ...[true, false, false],
  ]);
  expect(limit.size).toBe(3);
  limit.release('b');
  expect(['a', 'c', 'b'].map((address) => limit.acquire(address))).toEqual([false, true, false]);
  for (const address of ['a', 'a', 'c']) limit.release(address);
  expect(limit.size).toBe(0);
  expect(['b', 'b'].map((address) => limit.acquire(address))).toEqual([true, true]);
});
