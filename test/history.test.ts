// The past of records: versions and their changes, a record as it was at a moment, deleted records, restore; with today's rights
// applied to the images of that time.
// Contract: history#history, history#at-a-moment, history#deleted-records, history#restore.
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test';
import { Connection } from '../src/runtime/postgres/connection.ts';
import { sql } from '../src/runtime/sql.ts';
import { addRole, bearer, publicKey, userToken, withRole } from './support/credentials.ts';
import { createRecord, fields, tenantWithEntities } from './support/entities.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await newTenant();
});
afterAll(() => service.stop());

const DEALS = '/api/entities/deals/records';
const DEAL_FIELDS = fields('title text', 'amount integer', 'secret text', 'due datetime');
const newTenant = () => tenantWithEntities(service, ['deals', 'tasks'], DEAL_FIELDS);
const ALL: ('read' | 'create' | 'update' | 'delete')[] = ['read', 'create', 'update', 'delete'];

async function ok<T = Json>(answer: Promise<Answer>): Promise<T> {
  const { status, text, body } = await answer;
  if (status !== 200 && status !== 201) throw new Error(`${status} ${text}`);
  return body.data;
}

const history = (client: Client, id: string, query = '') => ok(client.get(`${DEALS}/${id}/history${query}`));
const asOf = (client: Client, id: string, moment: string) =>
  client.get(`${DEALS}/${id}?asOf=${encodeURIComponent(moment)}`);
const brief = ({ items }: Json): string[] =>
  items.map(({ version, event, changes }: Json) => `${version} ${event.slice(7)} ${JSON.stringify(changes)}`);

/** A time after all changes so far, and before all later ones. */
async function between(): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 5));
  const row = await service.app.db.first<{ at: string }>(sql`select clock_timestamp()::timestamptz(3) as at`);
  await new Promise((resolve) => setTimeout(resolve, 5));
  return new Date(row?.at ?? 0).toISOString();
}

const cursorNow = async (client: Client): Promise<string> => (await ok(client.get('/api/changes'))).nextCursor;

describe('history', () => {
  test('lists the versions of a record, newest first, each with its author and changes', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 2, title: 'b' }));
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: null }));
    const whoami = await ok(tenant.get('/api/auth/whoami'));
    const page = await history(tenant, id);
    const made = { at: expect.stringMatching(/^\d{4}-.*Z$/), triggered_by: 'api' };
    const actor = { id: whoami.id, kind: 'owner_key', name: expect.any(String) };
    expect(page).toEqual({
      items: [
        { ...made, actor, version: 3, event: 'record.updated', changes: { amount: { from: 2, to: null } } },
        {
          ...made,
          actor,
          version: 2,
          event: 'record.updated',
          changes: { title: { from: 'a', to: 'b' }, amount: { from: 1, to: 2 } },
        },
        {
          ...made,
          actor,
          version: 1,
          event: 'record.created',
          changes: { title: { from: null, to: 'a' }, amount: { from: null, to: 1 } },
        },
      ],
      nextCursor: null,
    });
  });

  test('of a deleted record stays, with the deletion first, which has the version of the deleted record', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    await ok(tenant.delete(`${DEALS}/${id}`));
    expect(brief(await history(tenant, id))).toEqual([
      '2 deleted {"title":{"from":"b","to":null}}',
      '2 updated {"title":{"from":"a","to":"b"}}',
      '1 created {"title":{"from":null,"to":"a"}}',
    ]);
  });

  test('pages neither repeat nor skip a version, also when the record changes and is deleted meanwhile', async () => {
    const { id } = await createRecord(tenant, DEALS, { amount: 1 });
    for (let amount = 2; amount <= 5; amount++) await ok(tenant.patch(`${DEALS}/${id}`, { amount }));
    const seen: number[] = [];
    for (let cursor = ''; ; ) {
      const page = await history(tenant, id, `?limit=2&cursor=${cursor}`);
      seen.push(...page.items.map(({ version }: Json) => version));
      if (seen.length === 2) await ok(tenant.patch(`${DEALS}/${id}`, { amount: 6 }));
      if (seen.length === 4) await ok(tenant.delete(`${DEALS}/${id}`));
      if (page.nextCursor === null) break;
      cursor = page.nextCursor;
    }
    expect(seen).toEqual([5, 4, 3, 2, 1]);
    expect(brief(await history(tenant, id, '?limit=3'))).toEqual([
      '6 deleted {"amount":{"from":6,"to":null}}',
      '6 updated {"amount":{"from":5,"to":6}}',
      '5 updated {"amount":{"from":4,"to":5}}',
    ]);
  });

  test('names every problem of its parameters, and is 404 for a record that does not exist', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    for (const [query, problem] of [
      ['?cursor=x', 'cursor: is not a cursor of a history; start again without one'],
      ['?limit=101', 'limit: must be a whole number from 1 to 100'],
      ['?page=2', 'page: unknown'],
    ]) {
      const { status, body } = await tenant.get(`${DEALS}/${id}/history${query}`);
      const [first] = body.error.details;
      expect([status, `${first.path}: ${first.message}`]).toEqual([400, problem as string]);
    }
    const nowhere = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';
    const paths = [`${DEALS}/${nowhere}`, `${DEALS}/no-uuid`, `/api/entities/nothing/records/${id}`];
    const wrongEntity = `/api/entities/tasks/records/${id}`;
    for (const path of [...paths, wrongEntity]) {
      expect([path, (await tenant.get(`${path}/history`)).status]).toEqual([path, 404]);
    }
    const other = await newTenant();
    expect((await other.get(`${DEALS}/${id}/history`)).status).toBe(404);
  });

  test('shows fields under the keys of today: a renamed one by its new key, a dropped one not at all', async () => {
    const own = await newTenant();
    const { id } = await createRecord(own, DEALS, { title: 'a', amount: 1, secret: 's' });
    await ok(own.patch(`${DEALS}/${id}`, { title: 'b', secret: 't' }));
    await ok(own.patch('/api/entities/deals/fields/title', { key: 'name_of_it' }));
    await ok(own.delete('/api/entities/deals/fields/secret?confirm=secret'));
    expect(brief(await history(own, id))).toEqual([
      '2 updated {"name_of_it":{"from":"a","to":"b"}}',
      '1 created {"name_of_it":{"from":null,"to":"a"},"amount":{"from":null,"to":1}}',
    ]);
  });
});

describe('a long history', () => {
  const follow = async (id: string, query: string): Promise<{ items: Json[]; pages: number }> => {
    const items: Json[] = [];
    let pages = 0;
    for (let cursor: string | null = ''; cursor !== null; pages++) {
      const page: Json = await history(tenant, id, `?cursor=${cursor}${query}`);
      items.push(...page.items);
      cursor = page.nextCursor;
    }
    return { items, pages };
  };

  test('of concurrent writers has each change once: each starts from the values of the one before', async () => {
    const { id } = await createRecord(tenant, DEALS, { amount: 0 });
    await Promise.all(
      Array.from({ length: 20 }, (_, i) => ok(tenant.patch(`${DEALS}/${id}`, { amount: i + 1, title: `t${i}` }))),
    );
    const { items } = await follow(id, '&limit=7');
    expect(items.map(({ version }) => version)).toEqual(Array.from({ length: 21 }, (_, i) => 21 - i));
    for (let i = 0; i < 20; i++) expect(items[i].changes.amount.from).toBe(items[i + 1].changes.amount.to);
    const { amount, title } = await ok(tenant.get(`${DEALS}/${id}`));
    expect([items[0].changes.amount.to, items[0].changes.title.to]).toEqual([amount, title]);
  });

  test('of a thousand versions is paged through, and each version can be read as of its time', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a', amount: 1_002 });
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 1 }));
    await service.app.db.rows(sql`
      update platform.events set version = 1002, at = at + interval '3000 s' where record_id = ${id}::uuid and version = 2`);
    await service.app.db.rows(sql`
      insert into platform.events (id, at, tenant_id, entity_id, entity, record_id, type, version, data, old, created_at, updated_at,
        actor, triggered_by)
      select gen_random_uuid(), e.at + n * interval '1 s', e.tenant_id, e.entity_id, e.entity, e.record_id, 'record.updated', n + 1,
        e.data || jsonb_build_object('f2', n), jsonb_build_object('at', e.updated_at, 'by', null, 'f2', n - 1),
        e.created_at, e.updated_at, e.actor, 'api'
      from platform.events as e, generate_series(1, 1000) as n
      where e.record_id = ${id}::uuid and e.version = 1`);
    const { items, pages } = await follow(id, '&limit=100');
    expect([items.length, pages]).toEqual([1_002, 11]);
    expect(items.map(({ version }) => version)).toEqual(Array.from({ length: 1_002 }, (_, i) => 1_002 - i));
    expect(items[1].changes).toEqual({ amount: { from: 999, to: 1_000 } });
    for (const at of [1, 500, 999]) {
      expect((await asOf(tenant, id, items[1_002 - at - 1].at)).body.data.amount).toBe(at);
    }
  });

  test('of records of nearly 1 MiB comes in pages of at most 16 MiB', async () => {
    const text = (letter: string): string => letter.repeat(950_000);
    const { id } = await createRecord(tenant, DEALS, { title: text('a'), amount: 0 });
    for (let i = 1; i <= 11; i++) {
      const change = { title: text(i % 2 ? 'b' : 'a'), amount: i };
      // The embedded database may take too long for a large write while other tests run.
      const headers = { 'if-match': `"${i}"` };
      while ((await tenant.patch(`${DEALS}/${id}`, change, headers)).status === 503);
    }
    await ok(tenant.delete(`${DEALS}/${id}`));
    const { items, pages } = await follow(id, '&limit=100');
    expect(items.map(({ version }) => version)).toEqual([12, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    expect(pages).toBeGreaterThan(1);
    expect([items[1].changes.title.from, items[1].changes.title.to]).toEqual([text('a'), text('b')]);
    await ok(tenant.post(`${DEALS}/${id}/restore`, { version: 1 }));
    expect((await ok(tenant.get(`${DEALS}/${id}`))).title).toBe(text('a'));
    await ok(tenant.delete(`${DEALS}/${id}`));
  });
});

test('the past of large records is read without breaking a connection that others would have to open again', async () => {
  const own = await newTenant();
  const title = (n: number): string => `${n}`.padEnd(900_000, 'x');
  const { id } = await createRecord(own, DEALS, { title: title(0), amount: 0 });
  const since = await cursorNow(own);
  for (let n = 1; n <= 4; n++) await ok(own.patch(`${DEALS}/${id}`, { title: title(n), amount: n }));
  const now = await between();
  await ok(own.patch(`${DEALS}/${id}`, { amount: 9 }));
  const paths = {
    history: `${DEALS}/${id}/history`,
    version: `${DEALS}/${id}/history?limit=1&cursor=${Buffer.from('5').toString('base64url')}`,
    asOf: `${DEALS}/${id}?asOf=${now}`,
    changes: `/api/changes?since=${since}`,
  };
  const broken = spyOn(Connection.prototype, 'fail');
  for (const [name, path] of Object.entries(paths)) {
    const answers = await Promise.all(Array.from({ length: 6 }, () => own.get(path)));
    expect([name, answers.map(({ status }) => status)]).toEqual([name, Array(6).fill(200)]);
    expect([name, broken.mock.calls.length]).toEqual([name, 0]);
  }
  broken.mockRestore();
}, 60_000);

describe('who sees what of a history', () => {
  const role = (entities: Json) =>
    withRole(service, tenant, { permissions: { deals: ALL }, entities: { deals: entities } });

  test('fields that a role hides are in no version; a change of them alone is a version without changes', async () => {
    const client = await role({ excludeFields: ['secret'] });
    const { id } = await createRecord(tenant, DEALS, { title: 'a', secret: 's' });
    await ok(tenant.patch(`${DEALS}/${id}`, { secret: 't' }));
    expect(brief(await history(client, id))).toEqual(['2 updated {}', '1 created {"title":{"from":null,"to":"a"}}']);
  });

  test('a version outside the role’s rows is not shown, and one that moved the record in shows no former value', async () => {
    const client = await role({ rowFilter: 'amount >= 10' });
    const { id } = await createRecord(tenant, DEALS, { title: 'a', amount: 10 });
    for (const values of [{ title: 'hidden', amount: 1 }, { title: 'b' }, { amount: 20 }, { title: 'c' }]) {
      await ok(tenant.patch(`${DEALS}/${id}`, values));
    }
    expect(brief(await history(client, id))).toEqual([
      '5 updated {"title":{"from":"b","to":"c"}}',
      '4 entered {"title":{"from":null,"to":"b"},"amount":{"from":null,"to":20}}',
      '1 created {"title":{"from":null,"to":"a"},"amount":{"from":null,"to":10}}',
    ]);
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 1 }));
    expect((await client.get(`${DEALS}/${id}/history`)).status).toBe(404);
    await ok(tenant.delete(`${DEALS}/${id}`));
    expect((await client.get(`${DEALS}/${id}/history`)).status).toBe(404);
  });

  test('of a deleted record the last image decides', async () => {
    const client = await role({ rowFilter: 'amount >= 10' });
    const { id } = await createRecord(tenant, DEALS, { amount: 1 });
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 10 }));
    await ok(tenant.delete(`${DEALS}/${id}`));
    expect(brief(await history(client, id))).toEqual([
      '2 deleted {"amount":{"from":10,"to":null}}',
      '2 entered {"amount":{"from":null,"to":10}}',
    ]);
  });

  test('a row filter on a field whose type has changed since shows nothing of that time', async () => {
    const own = await newTenant();
    const hidden = await createRecord(own, DEALS, { title: 'hidden', secret: 'yes' });
    await ok(own.patch(`${DEALS}/${hidden.id}`, { title: 'shown', secret: 'no' }));
    const then = await between();
    const gone = await createRecord(own, DEALS, { title: 'hidden', secret: 'yes' });
    await ok(own.delete(`${DEALS}/${gone.id}`));
    await ok(own.patch('/api/entities/deals/fields/secret', { type: 'select', options: ['yes', 'no'] }));
    const later = await createRecord(own, DEALS, { title: 'without' });
    await ok(own.delete(`${DEALS}/${later.id}`));
    await ok(own.patch(`${DEALS}/${hidden.id}`, { title: 'changed' }));
    for (const rowFilter of [
      'secret != "yes"',
      'secret is null OR secret = "no"',
      'secret != "yes" AND due is null OR due < $now',
    ]) {
      const client = await withRole(service, own, { permissions: { deals: ALL }, entities: { deals: { rowFilter } } });
      expect((await client.get(`${DEALS}/${hidden.id}`)).body.data.title).toBe('changed');
      expect((await history(client, hidden.id)).items).toMatchObject([{ version: 4 }]);
      expect((await asOf(client, hidden.id, then)).status).toBe(404);
      expect((await client.get(`${DEALS}/${gone.id}/history`)).status).toBe(404);
      for (const id of [hidden.id, gone.id])
        expect((await client.post(`${DEALS}/${id}/restore`, { version: 1 })).status).toBe(404);
      expect((await ok(client.get(`${DEALS}/deleted`))).items.map(({ title }: Json) => title)).toEqual(['without']);
    }
    // A condition that shows them whatever the field was still shows them.
    const rowFilter = 'title = "hidden" OR NOT (secret = "yes")';
    const client = await withRole(service, own, { permissions: { deals: ALL }, entities: { deals: { rowFilter } } });
    expect((await asOf(client, hidden.id, then)).status).toBe(404);
    expect((await history(client, gone.id)).items).toHaveLength(2);
    expect((await ok(client.get(`${DEALS}/deleted`))).total).toBe(2);
  });

  test('in a row filter $now is the time of the version', async () => {
    const client = await role({ rowFilter: 'due > $now' });
    const soon = new Date(Date.now() + 1_500).toISOString();
    const { id } = await createRecord(tenant, DEALS, { title: 'a', due: soon });
    await ok(tenant.delete(`${DEALS}/${id}`));
    while (Date.now() <= Date.parse(soon)) await new Promise((resolve) => setTimeout(resolve, 50));
    expect(brief(await history(client, id))).toHaveLength(2);
  });

  test('names of actors are for admins; others see their own, and a deleted account has neither kind nor name', async () => {
    const { name: roleName } = await addRole(service, tenant, { permissions: { deals: ALL } });
    const client = bearer(service, await userToken(service, tenant, roleName));
    const { id: userId } = await ok(client.get('/api/auth/whoami'));
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    await ok(client.patch(`${DEALS}/${id}`, { title: 'b' }));
    const actors = async (by: Client) =>
      (await history(by, id)).items.map(({ actor }: Json) => [actor.kind, actor.name]);
    expect(await actors(tenant)).toEqual([
      ['user', 'Person'],
      ['owner_key', expect.any(String)],
    ]);
    expect(await actors(client)).toEqual([
      ['user', 'Person'],
      ['owner_key', null],
    ]);
    await ok(tenant.delete(`/api/users/${userId}`));
    expect((await actors(tenant))[0]).toEqual([null, null]);
    await ok(service.admin.with({ 'x-tenant-slug': tenant.slug }).patch(`${DEALS}/${id}`, { title: 'c' }));
    expect((await history(tenant, id)).items[0].actor).toEqual({ id: null, kind: 'super_admin', name: null });
  });

  test('a role that may not read the entity gets 403, a public key too without channels:read', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    const none = await withRole(service, tenant, { permissions: { tasks: ALL } });
    const { id: roleId } = await addRole(service, tenant, { permissions: { deals: ['read'] } });
    const anyone = bearer(service, await publicKey(service, tenant, roleId));
    expect((await ok(anyone.get(`${DEALS}/${id}`))).title).toBe('a');
    await service.app.db.rows(sql`
      update platform.public_keys set scopes = '["records:read"]' where role_id = ${roleId}::uuid`);
    const reader = bearer(service, await publicKey(service, tenant, roleId));
    await service.app.db.rows(sql`
      update platform.public_keys set scopes = '["records:read"]' where role_id = ${roleId}::uuid`);
    for (const path of [`${DEALS}/${id}/history`, `${DEALS}/${id}?asOf=2030-01-01`]) {
      for (const client of [none, reader]) expect([path, (await client.get(path)).status]).toEqual([path, 403]);
    }
  });
});

describe('a record as it was', () => {
  test('at a time: 404 before it was created and after it was deleted, the version of that time in between', async () => {
    const before = await between();
    const created = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    const { id } = created;
    const first = await between();
    const updated = await ok(tenant.patch(`${DEALS}/${id}`, { amount: 2 }));
    const second = await between();
    await ok(tenant.delete(`${DEALS}/${id}`));
    const after = await between();
    const states = [];
    for (const time of [before, first, second, after]) states.push(await asOf(tenant, id, time));
    expect(states.map(({ status }) => status)).toEqual([404, 200, 200, 404]);
    expect(states[1]?.body.data).toEqual(created);
    expect(states[2]?.body.data).toEqual(updated);
    expect(states[2]?.headers.get('etag')).toBeNull();
    expect((await asOf(tenant, id, first.replace('Z', '+00:00'))).body.data).toEqual(created);
  });

  test('at a cursor of the feed', async () => {
    const before = await cursorNow(tenant);
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    const first = await cursorNow(tenant);
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'c' }));
    const items = (await ok(tenant.get(`/api/changes?since=${first}`))).items;
    await ok(tenant.delete(`${DEALS}/${id}`));
    const cursors = [before, first, items[0].cursor, items[1].cursor, await cursorNow(tenant)];
    const titles = [];
    for (const cursor of cursors) {
      const { status, body } = await asOf(tenant, id, cursor);
      titles.push(status === 200 ? body.data.title : status);
    }
    expect(titles).toEqual([404, 'a', 'b', 'c', 404]);
    const foreign = await cursorNow(await newTenant());
    expect((await asOf(tenant, id, foreign)).status).toBe(403);
  });

  test('through today’s rights: hidden fields are left out, a row that was outside the filter at that time is 404', async () => {
    const client = await withRole(service, tenant, {
      permissions: { deals: ALL },
      entities: { deals: { excludeFields: ['secret'], rowFilter: 'amount >= 10' } },
    });
    const { id } = await createRecord(tenant, DEALS, { title: 'a', amount: 1, secret: 's' });
    const first = await between();
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 10 }));
    const second = await between();
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    expect((await asOf(client, id, first)).status).toBe(404);
    const { body } = await asOf(client, id, second);
    expect(body.data).toMatchObject({ title: 'a', amount: 10 });
    expect(body.data).not.toHaveProperty('secret');
    expect(Object.keys(await ok(client.get(`${DEALS}/${id}?asOf=${second}&fields=title`)))).toContain('title');
    expect((await client.get(`${DEALS}/${id}?asOf=${second}&fields=secret`)).status).toBe(400);
  });

  test('refuses an invalid moment, and relations, which would show current records', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    for (const [query, path] of [
      ['asOf=', 'asOf'],
      ['asOf=yesterday', 'asOf'],
      ['asOf=2026-13-01', 'asOf'],
      ['asOf=2026-01-01T00:00', 'asOf'],
      ['asOf=2026-01-01&resolve=true', 'resolve'],
    ]) {
      const { status, body } = await tenant.get(`${DEALS}/${id}?${query}`);
      expect([query, status, body.error?.details?.[0]?.path]).toEqual([query, 400, path]);
    }
  });

  test('at the boundary of retention: the values before the oldest event, then 410; without events the current record', async () => {
    const created = await createRecord(tenant, DEALS, { title: 'a' });
    const { id } = created;
    const first = await between();
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    const second = await between();
    const forget = (version: number) =>
      service.app.db.rows(sql`
        delete from platform.events where record_id = ${id}::uuid and version = ${version}::int`);
    await forget(1);
    expect((await asOf(tenant, id, first)).body.data).toEqual(created);
    expect(brief(await history(tenant, id))).toEqual(['2 updated {"title":{"from":"a","to":"b"}}']);
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'c' }));
    await forget(2);
    expect((await asOf(tenant, id, first)).status).toBe(410);
    expect((await asOf(tenant, id, second)).body.data.title).toBe('b');
    await forget(3);
    expect((await asOf(tenant, id, second)).status).toBe(410);
    expect((await asOf(tenant, id, await between())).body.data.title).toBe('c');
    expect((await asOf(tenant, id, '2020-01-01T00:00:00Z')).status).toBe(404);
    expect(await history(tenant, id)).toEqual({ items: [], nextCursor: null });
  });
});

describe('restore', () => {
  const restore = (client: Client, id: string, version: unknown, headers: Record<string, string> = {}, path = DEALS) =>
    client.post(`${path}/${id}/restore`, { version }, headers);

  test('gives a record the values of a version, as a new change', async () => {
    const { id, createdAt } = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b', amount: null, secret: 's' }));
    const { status, body, headers } = await restore(tenant, id, 1);
    expect([status, headers.get('etag')]).toEqual([200, '"3"']);
    expect(body.data).toMatchObject({ id, createdAt, title: 'a', amount: 1, secret: null });
    expect((await tenant.get(`${DEALS}/${id}`)).body.data).toEqual(body.data);
    expect(brief(await history(tenant, id))[0]).toBe(
      '3 updated {"title":{"from":"b","to":"a"},"amount":{"from":null,"to":1},"secret":{"from":"s","to":null}}',
    );
  });

  test('a deleted record comes back under its id, with its origin, and continues with the next version', async () => {
    const since = await cursorNow(tenant);
    const created = await createRecord(tenant, DEALS, { title: 'a', amount: 1 });
    const { id } = created;
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    await ok(tenant.delete(`${DEALS}/${id}`));
    const { status, body, headers } = await restore(tenant, id, 1);
    expect([status, headers.get('etag')]).toEqual([200, '"3"']);
    expect(body.data).toEqual({ ...created, updatedAt: expect.any(String) });
    expect((await tenant.get(`${DEALS}/${id}`)).body.data).toEqual(body.data);
    await ok(tenant.delete(`${DEALS}/${id}`));
    await ok(restore(tenant, id, 2));
    expect((await tenant.get(`${DEALS}/${id}`)).body.data.title).toBe('b');
    expect((await history(tenant, id)).items.map(({ version, event }: Json) => `${version} ${event}`)).toEqual([
      '4 record.created',
      '3 record.deleted',
      '3 record.created',
      '2 record.deleted',
      '2 record.updated',
      '1 record.created',
    ]);
    const items = (await ok(tenant.get(`/api/changes?since=${since}`))).items;
    expect(items.map(({ event, version }: Json) => `${version} ${event}`)).toEqual([
      '1 record.created',
      '2 record.updated',
      '2 record.deleted',
      '3 record.created',
      '3 record.deleted',
      '4 record.created',
    ]);
    const list = await ok(tenant.get(`${DEALS}?filters=${encodeURIComponent(`id = "${id}"`)}`));
    expect(list.total).toBe(1);
  });

  test('refuses with 409 and names every obstacle, by field', async () => {
    const own = await tenantWithEntities(service, ['companies'], fields('name_of text'));
    await ok(
      own.post('/api/entities', {
        name: 'deals',
        fields: [
          { key: 'code', type: 'text', unique: true },
          { key: 'number', type: 'integer', unique: true },
          { key: 'stage', type: 'select', options: ['open', 'won'] },
          { key: 'company', type: 'relation', entity: 'companies', onDelete: 'set_null' },
          { key: 'note', type: 'text' },
        ],
      }),
    );
    const company = await createRecord(own, '/api/entities/companies/records', { name_of: 'c' });
    const values = { code: 'x', number: 1, stage: 'open', company: company.id, note: null };
    const { id } = await createRecord(own, DEALS, values);
    const deleted = await createRecord(own, DEALS, { ...values, code: 'y', number: 2 });
    await ok(own.patch(`${DEALS}/${id}`, { code: 'z', number: 3, stage: 'won', company: null, note: 'n' }));
    await ok(own.delete(`${DEALS}/${deleted.id}`));
    for (const [code, number] of [
      ['x', 1],
      ['y', 2],
    ])
      await createRecord(own, DEALS, { code, number, stage: 'won', note: 'n' });
    await ok(own.delete(`/api/entities/companies/records/${company.id}`));
    await ok(own.patch('/api/entities/deals/fields/stage', { options: ['won'] }));
    await ok(own.patch('/api/entities/deals/fields/note', { required: true }));
    for (const [record, note] of [
      [id, 'is required and cannot be cleared'],
      [deleted.id, 'is required'],
    ]) {
      const { status, body } = await restore(own, record as string, 1);
      expect([status, body.error.code]).toEqual([409, 'CONFLICT']);
      const problems = body.error.details.map(({ path, message }: Json) => `${path}: ${message}`).sort();
      expect(problems).toEqual([
        'code: another record has this value',
        `company: no such record: ${company.id}`,
        `note: ${note}`,
        'number: another record has this value',
        'stage: must be one of: won',
      ]);
    }
  });

  test('leaves a field that did not exist then, or had another type, as it is', async () => {
    const own = await newTenant();
    const { id } = await createRecord(own, DEALS, { title: '1', amount: 1 });
    const gone = await createRecord(own, DEALS, { title: '2', amount: 1 });
    await ok(own.delete(`${DEALS}/${gone.id}`));
    await ok(own.patch('/api/entities/deals/fields/title', { type: 'integer' }));
    await ok(own.post('/api/entities/deals/fields', { key: 'extra', type: 'text', default: 'new' }));
    await ok(own.patch(`${DEALS}/${id}`, { amount: 2, extra: 'more' }));
    expect((await ok(restore(own, id, 1))) as Json).toMatchObject({ title: 1, amount: 1, extra: 'more' });
    expect(await ok(restore(own, gone.id, 1))).toMatchObject({ title: null, amount: 1, extra: 'new' });
  });

  test('obeys Idempotency-Key and If-Match, which names the deleted version for a deleted record', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    await ok(tenant.patch(`${DEALS}/${id}`, { title: 'b' }));
    expect((await restore(tenant, id, 1, { 'if-match': '"1"' })).status).toBe(412);
    await ok(restore(tenant, id, 1, { 'if-match': '"2"' }));
    await ok(tenant.delete(`${DEALS}/${id}`));
    expect((await restore(tenant, id, 1, { 'if-match': '"2"' })).status).toBe(412);
    const once = { 'if-match': '"3"', 'idempotency-key': `restore ${id}`.replace(' ', '-') };
    const first = await restore(tenant, id, 1, once);
    const again = await restore(tenant, id, 1, once);
    expect([first.status, again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 200, 'true']);
    expect(again.body).toEqual(first.body);
    expect((await restore(tenant, id, 2, once)).status).toBe(422);
    expect((await history(tenant, id)).items).toHaveLength(5);
  });

  test('is refused without the right, and for a version that does not exist or is not visible', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a', amount: 1, secret: 's' });
    await ok(tenant.patch(`${DEALS}/${id}`, { amount: 10, secret: 't' }));
    const gone = await createRecord(tenant, DEALS, { title: 'b', amount: 10, secret: 'u' });
    await ok(tenant.patch(`${DEALS}/${gone.id}`, { title: 'c', secret: 'v' }));
    await ok(tenant.delete(`${DEALS}/${gone.id}`));
    const entities = { deals: { excludeFields: ['secret'], rowFilter: 'amount >= 10' } };
    const can = (operations: typeof ALL) => withRole(service, tenant, { permissions: { deals: operations }, entities });
    const [reader, creator, updater] = [
      await can(['read']),
      await can(['read', 'create']),
      await can(['read', 'update']),
    ];
    const refusals = [];
    for (const client of [reader, creator, updater, await can(['update', 'create'])]) {
      refusals.push([(await restore(client, id, 2)).status, (await restore(client, gone.id, 1)).status]);
    }
    expect(refusals).toEqual([
      [403, 403],
      [403, 200],
      [200, 200],
      [403, 403],
    ]);
    // Fields that the role does not see have their last values.
    expect((await tenant.get(`${DEALS}/${gone.id}`)).body.data).toMatchObject({ title: 'b', secret: 'v' });
    expect((await tenant.get(`${DEALS}/${id}`)).body.data).toMatchObject({ amount: 10, secret: 't' });
    expect((await restore(updater, id, 1)).status).toBe(404);
    expect((await restore(tenant, id, 99)).status).toBe(404);
    for (const version of [0, '1', 1.5, undefined, 2 ** 60])
      expect((await restore(tenant, id, version)).status).toBe(400);
    const { id: roleId } = await addRole(service, tenant, { permissions: { deals: ALL } });
    expect((await restore(bearer(service, await publicKey(service, tenant, roleId)), id, 2)).status).toBe(401);
  });

  test('does not name an obstacle in a field that the caller may not see', async () => {
    const own = await service.tenant();
    await ok(
      own.post('/api/entities', {
        name: 'deals',
        fields: [
          { key: 'title', type: 'text' },
          { key: 'pin', type: 'text', unique: true },
        ],
      }),
    );
    const { id } = await createRecord(own, DEALS, { title: 'a', pin: 'x' });
    await ok(own.delete(`${DEALS}/${id}`));
    await createRecord(own, DEALS, { title: 'b', pin: 'x' });
    const client = await withRole(service, own, {
      permissions: { deals: ALL },
      entities: { deals: { fields: ['title'] } },
    });
    const { status, body, text } = await restore(client, id, 1);
    expect([status, body.error.details.map(({ path }: Json) => path)]).toEqual([409, ['request']]);
    expect(text).not.toContain('pin');
  });

  test('applies rules as for a creation or a change, and the row filter to the restored record', async () => {
    const own = await newTenant();
    const { id } = await createRecord(own, DEALS, { title: 'a', amount: 10 });
    await ok(own.patch(`${DEALS}/${id}`, { amount: 20 }));
    const gone = await createRecord(own, DEALS, { title: 'a', amount: 10 });
    await ok(own.patch(`${DEALS}/${gone.id}`, { amount: 20 }));
    await ok(own.delete(`${DEALS}/${gone.id}`));
    for (const trigger of ['before_create', 'before_update']) {
      await ok(
        own.post('/api/rules', {
          name: trigger,
          entity: 'deals',
          trigger,
          condition: 'title = "a" AND amount = 10',
          action: { type: 'reject', message: 'no tens' },
        }),
      );
    }
    for (const record of [id, gone.id]) {
      const { status, body } = await restore(own, record, 1);
      expect([status, body.error.code, body.error.message]).toEqual([400, 'BUSINESS_RULE_ERROR', 'no tens']);
    }
    expect((await own.get(`${DEALS}/${gone.id}`)).status).toBe(404);
    await ok(restore(own, gone.id, 2));
  });

  test('raced by two, a deleted record comes back once, and no version is used twice', async () => {
    const { id } = await createRecord(tenant, DEALS, { title: 'a' });
    await ok(tenant.delete(`${DEALS}/${id}`));
    const answers = await Promise.all(Array.from({ length: 4 }, () => restore(tenant, id, 1)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const { items } = await history(tenant, id);
    expect(items.map(({ event }: Json) => event)).toEqual([
      ...Array.from({ length: 3 }, () => 'record.updated'),
      'record.created',
      'record.deleted',
      'record.created',
    ]);
    expect(items.map(({ version }: Json) => version)).toEqual([5, 4, 3, 2, 1, 1]);
  });
});

describe('deleted records', () => {
  let own: TestTenant;
  const ids: string[] = [];
  const deleted = (client: Client, query: Record<string, string> = {}) =>
    ok(client.get(`${DEALS}/deleted?${new URLSearchParams(query)}`));
  const titles = ({ items }: Json): string[] => items.map(({ title }: Json) => title);

  beforeAll(async () => {
    own = await newTenant();
    const due = (ms: number): string => new Date(Date.now() + ms).toISOString();
    for (const [title, amount, at] of [
      ['a', 3, due(-1_000)],
      ['b', 1, due(60_000)],
      ['c', null, null],
      ['d', 2, due(60_000)],
      ['back', 9, due(60_000)],
      ['kept', 8, due(60_000)],
    ]) {
      ids.push((await createRecord(own, DEALS, { title, amount, due: at, secret: 's' })).id);
    }
    for (const id of ids.slice(0, 5)) {
      await ok(own.delete(`${DEALS}/${id}`));
      await between();
    }
    await ok(own.post(`${DEALS}/${ids[4]}/restore`, { version: 1 }));
  });

  test('are listed with their last values, the newest deletion first, without those that came back', async () => {
    const page = await deleted(own);
    expect(titles(page)).toEqual(['d', 'c', 'b', 'a']);
    const whoami = await ok(own.get('/api/auth/whoami'));
    expect(page).toMatchObject({ total: 4, page: 1, limit: 20, totalPages: 1 });
    expect(page.items[0]).toEqual({
      id: ids[3],
      entityId: expect.any(String),
      title: 'd',
      amount: 2,
      secret: 's',
      due: expect.any(String),
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
      createdBy: whoami.id,
      updatedBy: whoami.id,
      deletedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      deletedBy: whoami.id,
    });
  });

  test('a record that came back and was deleted again is listed once, with its last values', async () => {
    const other = await newTenant();
    const { id } = await createRecord(other, DEALS, { title: 'a' });
    await ok(other.delete(`${DEALS}/${id}`));
    await ok(other.post(`${DEALS}/${id}/restore`, { version: 1 }));
    await ok(other.patch(`${DEALS}/${id}`, { title: 'b' }));
    await ok(other.delete(`${DEALS}/${id}`));
    expect(titles(await deleted(other))).toEqual(['b']);
  });

  test('take filters, sort keys, fields, pages and cursors, also by deletedAt and deletedBy', async () => {
    expect(titles(await deleted(own, { filters: 'amount >= 2' }))).toEqual(['d', 'a']);
    expect(titles(await deleted(own, { 'filter.title': 'b' }))).toEqual(['b']);
    expect(titles(await deleted(own, { sort: 'amount' }))).toEqual(['b', 'd', 'a', 'c']);
    expect(titles(await deleted(own, { sort: '-amount' }))).toEqual(['a', 'd', 'b', 'c']);
    expect(titles(await deleted(own, { sort: 'deletedAt' }))).toEqual(['a', 'b', 'c', 'd']);
    expect(titles(await deleted(own, { filters: 'deletedAt > $now-1h AND deletedBy != null' }))).toHaveLength(4);
    expect(titles(await deleted(own, { filters: 'deletedAt < $now-1h' }))).toEqual([]);
    expect(Object.keys((await deleted(own, { fields: 'title' })).items[0])).not.toContain('amount');
    expect(titles(await deleted(own, { limit: '2', page: '2' }))).toEqual(['b', 'a']);
    expect(await deleted(own, { limit: '1', count: 'none' })).toMatchObject({ total: null, totalPages: null });
    for (const sort of ['', 'amount', '-amount', '-deletedAt']) {
      const seen: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Json = await deleted(own, { limit: '1', sort, cursor });
        seen.push(...titles(page));
        cursor = page.nextCursor;
      }
      expect([sort, seen]).toEqual([sort, titles(await deleted(own, { sort }))]);
    }
  });

  test('refuse parameters that only lists of records have, with the reason', async () => {
    const { status, body } = await own.get(`${DEALS}/deleted?search=a&with=etags`);
    expect([status, body.error.details.map(({ path, message }: Json) => `${path} ${message.slice(0, 21)}`)]).toEqual([
      400,
      ['search does not apply: delet', 'with must be nextCursor; a'],
    ]);
    for (const query of ['sort=nothing', 'filters=nothing = 1', 'cursor=x', 'fields=nothing', 'asOf=now']) {
      expect([query, (await own.get(`${DEALS}/deleted?${query}`)).status]).toEqual([query, 400]);
    }
  });

  test('are the records that the role saw when they were deleted, without its hidden fields', async () => {
    const role = (restriction: Json) =>
      withRole(service, own, { permissions: { deals: ['read'] }, entities: { deals: restriction } });
    const few = await role({ excludeFields: ['secret'], rowFilter: 'amount >= 2' });
    const page = await deleted(few);
    expect([titles(page), page.total]).toEqual([['d', 'a'], 2]);
    expect(page.items[0]).not.toHaveProperty('secret');
    expect((await few.get(`${DEALS}/deleted?filters=secret = "s"`)).status).toBe(400);
    // $now is the time of the deletion.
    const later = await role({ rowFilter: 'due > $now' });
    const due = await deleted(later, { filters: 'amount < 9', limit: '1' });
    expect([titles(due), due.total]).toEqual([['d'], 2]);
    expect(titles(await deleted(later, { sort: 'amount' }))).toEqual(['b', 'd']);
    const none = await withRole(service, own, { permissions: {} });
    expect((await none.get(`${DEALS}/deleted`)).status).toBe(403);
  });
});
