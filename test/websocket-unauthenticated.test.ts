// The limit of unauthenticated WebSockets in a process, in total and by client address. A connection over the limit gets an
// error and is closed; authenticated connections do not count. Addresses come from a trusted proxy here.
// Contract: decisions#websocket.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { UnauthenticatedLimit } from '../src/realtime/connection-limits.ts';
import { newAddress } from './support/addresses.ts';
import { closeAfterEach } from './support/connections.ts';
import { adminSession } from './support/credentials.ts';
import { startService, type TestService } from './support/service.ts';
import { openSocket, type TestSocket } from './support/streams.ts';

const { perAddress } = LIMITS.unauthenticatedSockets;
const AT_ONCE = 100;
type Address = Record<string, string>;

let service: TestService;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
});
afterAll(() => service.stop());

const keep = closeAfterEach();
const connect = async (address: Address): Promise<TestSocket> => keep(await openSocket(service.url, address));

/** An unauthenticated connection; null when it was rejected. */
async function openUnauthenticated(address: Address): Promise<TestSocket | null> {
  const socket = await connect(address);
  const { type, code } = await socket.ask({ type: 'ping' });
  if (type === 'error') return socket;
  expect([type, code, await socket.ended()]).toEqual(['auth_error', 'limit_exceeded', 1013]);
  return null;
}

const isRejected = async (address: Address): Promise<boolean> => (await openUnauthenticated(address)) === null;

/** Opens `count` connections. Retries, because closed ones may still count for a moment. */
async function fill(address: Address, count: number): Promise<void> {
  for (let missing = count; missing > 0; ) {
    const some = await Promise.all(
      Array.from({ length: Math.min(missing, AT_ONCE) }, () => openUnauthenticated(address)),
    );
    missing -= some.filter((socket) => socket !== null).length;
  }
}

test('the limit of one address does not affect others; authenticated and closed connections make room', async () => {
  const token = await adminSession(service, await service.tenant());
  const address = newAddress();
  const [first, second] = [await openUnauthenticated(address), await openUnauthenticated(address)];
  await fill(address, perAddress - 2);
  expect(await isRejected(address)).toBe(true);
  expect(await isRejected(newAddress())).toBe(false);
  expect(await first?.ask({ type: 'auth', token: 'svc_pkey_nonsense' })).toMatchObject({ type: 'auth_error' });
  expect(await isRejected(address)).toBe(true);
  expect(await first?.ask({ type: 'auth', token })).toEqual({ type: 'auth_ok' });
  expect(await isRejected(address)).toBe(false);
  expect(await isRejected(address)).toBe(true);
  second?.close();
  await fill(address, 1);
  expect(await isRejected(address)).toBe(true);
  expect(await first?.ask({ type: 'ping' })).toEqual({ type: 'pong' });
  first?.close();
  await first?.ended();
  expect(await isRejected(address)).toBe(true);
});

test('only the address that the proxy appends counts', async () => {
  const { 'x-forwarded-for': address } = newAddress();
  const forged = (): Address => ({ 'x-forwarded-for': `${newAddress()['x-forwarded-for']}, ${address}` });
  for (let left = perAddress; left > 0; left -= AT_ONCE) {
    const some = Array.from({ length: Math.min(left, AT_ONCE) }, () => isRejected(forged()));
    expect(await Promise.all(some)).not.toContain(true);
  }
  expect(await isRejected(forged())).toBe(true);
});

test('the total is limited over all addresses, and released addresses are not kept', () => {
  const limit = new UnauthenticatedLimit({ perAddress: 2, total: 3 });
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
