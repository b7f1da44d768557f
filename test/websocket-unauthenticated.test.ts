// The limit of unauthenticated WebSockets in a process, in total and by client address. A connection over the limit gets an
// error and is closed; authenticated connections do not count. Addresses come from a trusted proxy here.
// Contract: decisions#websocket.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { UnauthenticatedSockets } from '../src/realtime/unauthenticated-sockets.ts';
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

test('when all places are taken, the address with the most gives up its oldest for an address that has fewer', () => {
  const sockets = new UnauthenticatedSockets({ perAddress: 3, total: 4 });
  const givenUp: string[] = [];
  const acquire = (name: string) => sockets.acquire(name[0] as string, () => givenUp.push(name));
  const [, a2] = ['a1', 'a2', 'a3'].map(acquire);
  expect([acquire('a4'), sockets.size]).toEqual([null, 3]);
  const b1 = acquire('b1');
  expect([acquire('c1') === null, givenUp, sockets.size]).toEqual([false, ['a1'], 4]);
  expect([acquire('b2'), acquire('c2'), acquire('a5')]).toEqual([null, null, null]);
  expect([acquire('d1') === null, givenUp]).toEqual([false, ['a1', 'a2']]);
  if (a2 != null) sockets.release(a2);
  expect(sockets.size).toBe(4);
  if (b1 != null) for (let i = 0; i < 2; i++) sockets.release(b1);
  expect(sockets.size).toBe(3);
  expect([acquire('e1') === null, givenUp]).toEqual([false, ['a1', 'a2']]);
});
