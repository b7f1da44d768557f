// Where a text is stored: in which tables of the platform and of a tenant, in which keys of Redis, and in the tenant's live
// stream. Every column of every row is searched, but for rows that name another tenant: other files have stored gigabytes.
import { Redis } from 'ioredis';
import { streamOf } from '../../src/events/relay.ts';
import { identifier, join, literal, sql } from '../../src/runtime/sql.ts';
import { schemaOf } from '../../src/tenants/tenants.ts';
import type { TestService } from './service.ts';

/** The places that hold the text, in any case; names of tables and keys. */
export async function placesOf(service: TestService, { id }: { id: string }, text: string): Promise<string[]> {
  return [
    ...(await tablesWith(service, id, text)),
    ...(await entriesWith(service, id, text)),
    ...(await keysWith(text)),
  ];
}

async function tablesWith({ app }: TestService, tenantId: string, text: string): Promise<string[]> {
  const tables = await app.db.slow.rows<{ schema: string; name: string; ofTenants: boolean }>(sql`
    select n.nspname::text as schema, c.relname::text as name, exists (
      select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
    ) as "ofTenants"
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('platform', ${schemaOf(tenantId)})`);
  const found = tables.map(
    ({ schema, name, ofTenants }) => sql`
      select ${literal(`${schema}.${name}`)} as place
      where exists (
        select from ${identifier(schema, name)} as t
        where t::text ilike ${`%${text}%`} and ${ofTenants ? sql`(t.tenant_id = ${tenantId}::uuid or t.tenant_id is null)` : sql`true`}
      )`,
  );
  const rows = await app.db.slow.rows<{ place: string }>(join(found, ' union all '));
  return rows.map(({ place }) => place.replace(schemaOf(tenantId), 'tenant'));
}

async function entriesWith({ app }: TestService, tenantId: string, text: string): Promise<string[]> {
  let isFound = false;
  await app.broker.remove(streamOf(tenantId), (fields) => {
    isFound ||= JSON.stringify(fields).includes(text);
    return false;
  });
  return isFound ? ['the live stream'] : [];
}

async function keysWith(text: string): Promise<string[]> {
  const { REDIS_URL } = process.env;
  if (REDIS_URL === undefined) return [];
  const redis = new Redis(REDIS_URL);
  const found: string[] = [];
  for (const key of await redis.keys('svc:*')) {
    const dump = await redis.dumpBuffer(key);
    const readers = { stream: () => redis.xrange(key, '-', '+'), zset: () => redis.zrange(key, 0, '-1') } as const;
    const type = (await redis.type(key)) as keyof typeof readers;
    const value = JSON.stringify((await readers[type]?.()) ?? dump?.toString('latin1') ?? '');
    if (value.includes(text)) found.push(key);
  }
  redis.disconnect();
  return found;
}
