// Rights of open connections: a revoked right takes effect on every open stream within a second.
import { afterAll, beforeAll, expect, setSystemTime, spyOn, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import { recognize } from '../src/access/credential-kinds.ts';
import { callerOfOpener, isKnownGood, openerOf } from '../src/access/resolve-opener.ts';
import { unauthorized, unavailable } from '../src/errors.ts';
import { AccessGroup } from '../src/realtime/access-group.ts';
import type { LiveConnection } from '../src/realtime/membership.ts';
import { realtimeOf } from '../src/realtime/realtime.ts';
import { TenantConnections } from '../src/realtime/tenant-connections.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, adminSession, bearer, botToken, changeRole, platformKey, userToken } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, type EventStream, openEvents, subscribeSocket } from './support/streams.ts';
import { durationOf, fastest } from './support/timing.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const keep = closeAfterEach();

const READ_ALL = { permissions: { '*': ['read' as const] } };
const RECORDS = '/api/entities/articles/records';
const WITHIN_MS = 1_000;

const newTenant = () => tenantWithEntities(service, ['articles'], fields('title text', 'secret text'));

const stream = async (tenant: TestTenant, key: string): Promise<EventStream> =>
  keep(await connectEvents(service.url, tenant.slug, key));

/** `measure` resolves to the time for which connections outlasted a right; it is repeated if the machine was slow. */
async function endsInTime(measure: () => Promise<number>): Promise<void> {
  expect(await fastest(WITHIN_MS, measure)).toBeLessThan(WITHIN_MS);
}

test('a suspended tenant: its streams end and its sockets are closed', () =>
  endsInTime(async () => {
    const tenant = await newTenant();
    const events = await stream(tenant, tenant.key);
    const socket = keep(await subscribeSocket(service.url, await adminSession(service, tenant), 'articles'));
    await service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, { status: 'suspended' });
    return durationOf(async () => {
      await events.ended();
      expect(await socket.ended()).toBe(4401);
    });
  }));

test.each<[string, (tenant: TestTenant) => Promise<{ token: string; revoke(): Promise<unknown> }>]>([
  [
    'a revoked platform key',
    async (tenant) => {
      const api = { name: 'Api', slug: 'api', roles: ['viewer'], permissions: { '*': { viewer: ['read'] } } };
      const { id } = (await tenant.post('/api/apis', api)).body.data;
      const keys = `/api/apis/${id}/keys`;
      const issued = (await tenant.post(keys, { role: 'viewer', label: 'a', ttlDays: 1 })).body.data;
      return { token: issued.key, revoke: () => tenant.delete(`${keys}/${issued.id}`) };
    },
  ],
  [
    'a revoked public key',
    async (tenant) => {
      const role = await addRole(service, tenant, READ_ALL);
      const input = { label: 'a', roleId: role.id, scopes: ['channels:read'], ttlDays: 1 };
      const { id, key } = (await tenant.post('/api/auth/public-keys', input)).body.data;
      return { token: key, revoke: () => tenant.delete(`/api/auth/public-keys/${id}`) };
    },
  ],
  [
    'a public key whose role lost its read permission',
    async (tenant) => {
      const role = await addRole(service, tenant, READ_ALL);
      const input = { label: 'a', roleId: role.id, scopes: ['channels:read'], ttlDays: 1 };
      const { key } = (await tenant.post('/api/auth/public-keys', input)).body.data;
      return { token: key, revoke: () => tenant.patch(`/api/roles/${role.name}`, { permissions: {} }) };
    },
  ],
  [
    'an ended admin session',
    async (tenant) => {
      const token = await adminSession(service, tenant);
      return { token, revoke: () => bearer(service, token).delete('/api/admin/sessions/current') };
    },
  ],
])('%s: its open connections receive no further event', (name, prepare) =>
  endsInTime(async () => {
    const tenant = await newTenant();
    const { token, revoke } = await prepare(tenant);
    const socket = keep(await subscribeSocket(service.url, token, 'articles'));
    const events = name.includes('platform') ? await stream(tenant, token) : null;
    await tenant.post(RECORDS, { title: 'before' });
    expect((await socket.next()).data.title).toBe('before');
    await revoke();
    const remainedMs = await durationOf(async () => {
      await tenant.post(RECORDS, { title: 'after the revocation' });
      await events?.ended();
      if (name.includes('role')) {
        expect((await socket.ask({ type: 'subscribe', entity: 'articles' })).type).toBe('error');
      } else expect(await socket.ended()).toBe(4401);
    });
    expect(JSON.stringify([socket.messages, events?.text])).not.toContain('after the revocation');
    return remainedMs;
  }),
);

test('a revoked owner key: its streams end', () =>
  endsInTime(async () => {
    const tenant = await newTenant();
    const { id, key } = (await tenant.post('/api/keys', { label: 'second' })).body.data;
    const events = await stream(tenant, key);
    expect((await tenant.delete(`/api/keys/${id}`)).status).toBe(200);
    return durationOf(() => events.ended());
  }));

test('a changed role shows other fields from the next event on, and no events once it has a row filter', async () => {
  const tenant = await newTenant();
  const role = await addRole(service, tenant, READ_ALL);
  const key = await platformKey(service, tenant, role.name, READ_ALL.permissions);
  const events = await stream(tenant, key);
  const socket = keep(await subscribeSocket(service.url, key, 'articles'));
  await tenant.post(RECORDS, { title: 'one', secret: 's' });
  expect((await events.next()).data.data.fields).toEqual({ title: 'one', secret: 's' });
  expect((await socket.next()).data.secret).toBe('s');
  const narrowed = { ...READ_ALL, entities: { articles: { fields: ['title'] } } };
  await changeRole(service, tenant, role.name, narrowed);
  await tenant.post(RECORDS, { title: 'two', secret: 's' });
  expect((await events.next()).data.data.fields).toEqual({ title: 'two' });
  expect(await socket.next()).not.toHaveProperty('data.secret');
  const filtered = { ...READ_ALL, entities: { articles: { rowFilter: 'title == "three"' } } };
  await changeRole(service, tenant, role.name, filtered);
  await tenant.post(RECORDS, { title: 'three' });
  await changeRole(service, tenant, role.name, READ_ALL);
  await tenant.post(RECORDS, { title: 'four' });
  // The third event may be shown under the earlier or the later rights, but never under the filtered ones.
  const titles = [(await events.next()).data.data.fields.title];
  if (titles[0] === 'three') titles.push((await events.next()).data.data.fields.title);
  expect(titles.at(-1)).toBe('four');
});

test('invalidated rights are loaded again only after every cache has dropped them', async () => {
  const connections = new TenantConnections(service.app, 'some tenant');
  const connection: LiveConnection = { deliver: () => undefined, disconnect: () => undefined };
  const [before, after] = ['before', 'after'].map(
    (role) => ({ kind: 'bot', role, tenant: { status: 'active' } }) as TenantCaller,
  );
  let known = before as TenantCaller;
  connections.add({ key: 'k', load: async () => known, isKnownGood: () => true }, known, connection, []);
  // Listeners of an invalidation run in any order: streams may be notified before a cache.
  connections.invalidateAccess(true);
  known = after as TenantCaller;
  expect(await connections.currentCaller('k')).toBe(known);
  connections.closeAll('stopping');
});

test('changes that are announced together load the rights of each stream once', async () => {
  const connections = new TenantConnections(service.app, 'some tenant');
  const connection: LiveConnection = { deliver: () => undefined, disconnect: () => undefined };
  const caller = { kind: 'bot', tenant: { status: 'active' } } as TenantCaller;
  for (let i = 0; i < 50; i++) {
    connections.add({ key: `k${i}`, load: async () => caller, isKnownGood: () => true }, caller, connection, []);
  }
  const refresh = spyOn(AccessGroup.prototype, 'refresh');
  for (let i = 0; i < 500; i++) connections.invalidateAccess(true);
  expect(await connections.currentCaller('k49')).toBe(caller);
  expect(refresh.mock.calls.length).toBeLessThan(200);
  refresh.mockRestore();
  connections.closeAll('stopping');
});

test('rights that cannot be loaded for a moment are loaded again, and the stream stays; revoked ones end it', async () => {
  const connections = new TenantConnections(service.app, 'some tenant');
  const ended: string[] = [];
  const connection: LiveConnection = { deliver: () => undefined, disconnect: (_, reason) => void ended.push(reason) };
  const [before, after] = ['before', 'after'].map(
    (role) => ({ kind: 'bot', role, tenant: { status: 'active' } }) as TenantCaller,
  ) as [TenantCaller, TenantCaller];
  let failures: Error[] = [unavailable('a statement was late'), unavailable('the database is not available')];
  const load = async (): Promise<TenantCaller> => {
    const failure = failures.shift();
    if (failure !== undefined) throw failure;
    return after;
  };
  const isKnownGood = (): boolean => true;
  const membership = connections.add({ key: 'k', load, isKnownGood }, before, connection, []);
  connections.invalidateAccess(true);
  expect(await membership.callerNow()).toBe(after);
  expect([failures, ended]).toEqual([[], []]);
  failures = [unavailable('the database is not available'), unauthorized()];
  connections.invalidateAccess(true);
  expect(await membership.callerNow()).toBe(null);
  expect(ended).toEqual(['revoked']);
});

test('unannounced, only rights whose credential is not known to be good are loaded again', async () => {
  const connections = new TenantConnections(service.app, 'some tenant');
  const connection: LiveConnection = { deliver: () => undefined, disconnect: () => undefined };
  const caller = { kind: 'bot', tenant: { status: 'active' } } as TenantCaller;
  const loaded: string[] = [];
  const good = new Set(['a', 'b']);
  for (const key of ['a', 'b', 'c']) {
    const load = async (): Promise<TenantCaller> => {
      loaded.push(key);
      return caller;
    };
    connections.add({ key, load, isKnownGood: () => good.has(key) }, caller, connection, []);
  }
  connections.invalidateAccess(false);
  await connections.currentCaller('c');
  expect(loaded).toEqual(['c']);
  good.delete('b');
  connections.invalidateAccess(false);
  await Promise.all(['b', 'c'].map((key) => connections.currentCaller(key)));
  expect(loaded.toSorted()).toEqual(['b', 'c', 'c']);
  connections.invalidateAccess(true);
  await Promise.all([...'abc'].map((key) => connections.currentCaller(key)));
  expect(loaded.toSorted()).toEqual(['a', 'b', 'b', 'c', 'c', 'c']);
  connections.closeAll('stopping');
});

// What is announced is known in the service's own process only.
if (process.env.SERVICE_RUNTIME !== 'deno') {
  test('a connection whose rights change while it opens begins with the new ones, or not at all', async () => {
    const { app } = service;
    const tenant = await newTenant();
    const connection: LiveConnection = { deliver: () => undefined, disconnect: () => undefined };
    const [before, after] = ['before', 'after'].map(
      (role) => ({ kind: 'bot', role, tenant: { id: tenant.id, status: 'active' } }) as TenantCaller,
    ) as [TenantCaller, TenantCaller];
    const opening = (next: () => TenantCaller) => {
      let known = (): TenantCaller => before;
      const load = async (): Promise<TenantCaller> => {
        const loaded = known();
        if (known === next) return loaded;
        // The data is outdated by the time it arrives.
        known = next;
        await app.invalidations.publish('role', tenant.id);
        return loaded;
      };
      const source = { key: crypto.randomUUID(), load, isKnownGood: () => true };
      return realtimeOf(app).join(source, before, connection, ['articles']);
    };
    const { membership } = await opening(() => after);
    expect(membership.caller).toBe(after);
    realtimeOf(app).leave(membership);
    const refused = opening(() => {
      throw unauthorized();
    });
    await expect(refused).rejects.toThrow(unauthorized().message);
  });

  test('a credential is known to be good until it ends, and while ends can be announced', async () => {
    const { app } = service;
    const tenant = await newTenant();
    const role = await addRole(service, tenant, READ_ALL);
    const issue = { label: 'a', roleId: role.id, scopes: ['channels:read'], ttlDays: 1 };
    const { id, key } = (await tenant.post('/api/auth/public-keys', issue)).body.data;
    const session = await adminSession(service, tenant);
    const token = await userToken(service, tenant, 'viewer');
    const openers = await Promise.all(
      [recognize('bearer', session), recognize('bearer', token), recognize('bearer', key)].map((credential) =>
        openerOf(app, tenant.id, credential),
      ),
    );
    const known = (): boolean[] => openers.map((opener) => isKnownGood(app, opener));
    await Promise.all(openers.map((opener) => callerOfOpener(app, opener)));
    expect(known()).toEqual([true, true, true]);
    const connected = spyOn(app.broker, 'connected').mockReturnValue(false);
    expect(known()).toEqual([false, false, false]);
    connected.mockRestore();
    await tenant.delete(`/api/auth/public-keys/${id}`);
    expect(known()).toEqual([true, true, false]);
    setSystemTime(new Date(Date.now() + 48 * 3_600_000));
    try {
      expect(known()).toEqual([false, false, false]);
    } finally {
      setSystemTime();
    }
  });

  test('an entity whose end revokes grants of keys and bots makes only streams of its own tenant load their rights again', async () => {
    const [ours, theirs] = [await newTenant(), await newTenant()];
    const key = await platformKey(service, ours, 'viewer', { articles: ['read'] });
    await botToken(service, ours, { articles: ['read'] });
    await stream(ours, key);
    await stream(theirs, theirs.key);
    const invalidate = spyOn(TenantConnections.prototype, 'invalidateAccess');
    expect((await ours.delete('/api/entities/articles')).status).toBe(200);
    const { calls, contexts } = invalidate.mock;
    const announced = (contexts as TenantConnections[]).flatMap(({ tenantId }, i) =>
      calls[i]?.[0] === true ? [tenantId] : [],
    );
    expect(new Set(announced)).toEqual(new Set([ours.id]));
    invalidate.mockRestore();
  });

  test('a key that ends makes only the streams of its own tenant load their rights again', async () => {
    const [ours, theirs] = [await newTenant(), await newTenant()];
    const { id } = (await ours.post('/api/keys', { label: 'short-lived' })).body.data;
    await stream(ours, ours.key);
    await stream(theirs, theirs.key);
    const invalidate = spyOn(TenantConnections.prototype, 'invalidateAccess');
    await ours.delete(`/api/keys/${id}`);
    const { calls, contexts } = invalidate.mock;
    const announced = (contexts as TenantConnections[]).flatMap(({ tenantId }, i) =>
      calls[i]?.[0] === true ? [tenantId] : [],
    );
    expect(new Set(announced)).toEqual(new Set([ours.id]));
    invalidate.mockRestore();
  });
}

test('only keys of the tenant open its stream; the stream of another tenant and that of an unknown one get the same 403', async () => {
  const tenant = await newTenant();
  const other = await service.tenant();
  const foreign = await openEvents(service.url, other.slug, tenant.key);
  const missing = await openEvents(service.url, 'no-such-tenant', tenant.key);
  expect([foreign.status, missing.status]).toEqual([403, 403]);
  const message = ({ text }: EventStream): string => JSON.parse(text).error.message;
  expect(message(foreign)).toBe(message(missing));
  expect((await openEvents(service.url, tenant.slug, '')).status).toBe(401);
  const session = await adminSession(service, tenant);
  expect((await openEvents(service.url, tenant.slug, session)).status).toBe(403);
});

test('messages of an agent need the permission to read it', async () => {
  const tenant = await newTenant();
  const role = await addRole(service, tenant, READ_ALL);
  const key = await platformKey(service, tenant, role.name, READ_ALL.permissions);
  expect((await openEvents(service.url, tenant.slug, key, '?agent_id=helper')).status).toBe(403);
  keep(await connectEvents(service.url, tenant.slug, tenant.key, '?agent_id=helper'));
});
