// `Idempotency-Key`: for 24 hours, a request with the same key and body gets the first response. The response is stored
// in the transaction of the change, so that a crash preserves both or neither. A dry run neither stores nor replays.
// Contract: decisions#idempotency.
import type { TenantCaller } from '../../access/caller.ts';
import { allows, restrictionOn } from '../../access/rights.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeOf } from '../../entities/access-scope.ts';
import { catalogWithin } from '../../entities/catalog.ts';
import { conflict, invalidField, ServiceError } from '../../errors.ts';
import type { Erasure } from '../../events/erasure.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { toSql } from '../../expression/to-sql.ts';
import { utf8InPieces } from '../../http/bounded-response.ts';
import { type Envelope, jsonChunks, responseOf, typed } from '../../http/reply.ts';
import { LIMITS } from '../../limits.ts';
import { holdBytes, withPlace } from '../../runtime/large-calls.ts';
import { lockNumber } from '../../runtime/locks.ts';
import { type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { sha256 } from '../../runtime/tokens.ts';
import { currentWork } from '../../runtime/work.ts';
import { storedOf } from '../../tenants/stored.ts';
import { autocommit, inTransaction, type WriteContext } from './context.ts';

interface StoredResponse {
  is_same: boolean;
  status: number;
  headers: Record<string, string>;
  /** The size of the body. */
  bytes: number;
  slots: string;
}

/** The field that each key of a response named: by now the key may name another field. */
interface AnswerNames {
  entityId: string;
  /** Whether the caller could read when it wrote; if not, the response has only what it wrote. Absent in responses of earlier versions. */
  isOfReader?: boolean;
  slots: Readonly<Record<string, string>>;
}

interface RequestKey {
  tenantId: string;
  caller: string;
  route: string;
  key: string;
  bodyHash: string;
}

interface WriteTarget {
  kind: 'records' | 'bulk' | 'restore';
  entityName: string;
  /** The record that the path names. */
  id?: string;
  /** The field by which an upsert finds its record. */
  upsertBy?: string | undefined;
}

/**
 * Runs a write at most once per key, then replays its response: 422 for another body, 409 while the first request runs. A
 * replay shows only what the caller may see by now: it omits fields that have been hidden since, and shows only the system
 * fields of a record that is no longer among the caller's rows, or to a caller that may no longer read.
 */
export async function idempotently<T>(
  app: App,
  caller: TenantCaller,
  request: Request,
  body: unknown,
  target: WriteTarget,
  write: (context: WriteContext) => Promise<Envelope<T>>,
): Promise<Envelope<T>> {
  const given = request.headers.get('idempotency-key');
  if (given === null) return write(autocommit(app, caller));
  if (!/^[\x21-\x7e]+$/.test(given) || given.length > LIMITS.idempotency.keyMax) {
    throw invalidField('Idempotency-Key', `must be 1 to ${LIMITS.idempotency.keyMax} visible ASCII characters`);
  }
  const upsert = target.upsertBy === undefined ? undefined : `upsert=${target.upsertBy}`;
  const isGiven = (part: string | undefined): boolean => part !== undefined;
  const key: RequestKey = {
    tenantId: caller.tenant.id,
    caller: `${caller.kind} ${caller.id ?? ''}`,
    route: ['POST', `${target.kind}/${target.entityName}`, target.id, upsert].filter(isGiven).join(' '),
    key: given,
    bodyHash: sha256(JSON.stringify(body)).toString('hex'),
  };
  // A dry run neither repeats a call nor can be repeated.
  if (app.db.dryRun !== undefined) return write(autocommit(app, caller));
  return withPlace(() =>
    inTransaction(autocommit(app, caller), async (context) => {
      const kept = await lockKey(context.tx, key);
      if (kept !== undefined) return typed<T>(await replay(kept, () => keptAnswer(context, target, key, kept.slots)));
      await requireRoom(context.tx, caller.tenant.id);
      const answer = await write(context);
      await store(context, target, key, responseOf(answer).clone());
      return answer;
    }),
  );
}

/** For clients that lost the response and send the request again: the first one will have ended soon. */
const RUNNING = { 'retry-after': '1' };

/** The stored response, if any; 409 while another transaction holds the key. */
async function lockKey(
  tx: Tx,
  { tenantId, caller, route, key, bodyHash }: RequestKey,
): Promise<StoredResponse | undefined> {
  const lock = await tx.first<{ held: boolean }>(sql`
    select pg_try_advisory_xact_lock(${lockNumber(tenantId, 'idempotency', caller, route, key)}) as held`);
  if (lock?.held !== true) {
    throw new ServiceError('CONFLICT', 'a request with this Idempotency-Key is still running', { headers: RUNNING });
  }
  return tx.first<StoredResponse>(sql`
    select body_hash = decode(${bodyHash}, 'hex') as is_same, status, headers, octet_length(answer) as bytes, slots
    from platform.idempotency_keys
    where ${isKey({ tenantId, caller, route, key })}
      and created_at > now() - make_interval(secs => ${LIMITS.idempotency.keptMs / 1_000}::int)`);
}

function isKey({ tenantId, caller, route, key }: Omit<RequestKey, 'bodyHash'>): Sql {
  return sql`tenant_id = ${tenantId}::uuid and caller = ${caller} and route = ${route} and key = ${key}`;
}

/** 409 when the tenant's responses of the last 24 hours have reached the limit in bytes. */
async function requireRoom(tx: Tx, tenantId: string): Promise<void> {
  const { bytes } = await storedOf(tx, tenantId, 'idempotency_keys');
  if (bytes < LIMITS.idempotency.bytesMax) return;
  throw conflict(
    `the tenant's responses kept for Idempotency-Key are ${LIMITS.idempotency.bytesMax} bytes or more: send the request without the header, or when those of 24 hours ago are deleted`,
  );
}

/** A stored response counts towards the memory of responses like a new one: many large ones at once would fill the memory. */
async function replay(
  { is_same: isSame, status, headers, bytes }: StoredResponse,
  answer: () => Promise<string>,
): Promise<Response> {
  if (!isSame) throw new ServiceError('IDEMPOTENCY_MISMATCH', 'this Idempotency-Key was used with another body');
  holdBytes(currentWork(), bytes);
  return jsonChunks(await utf8InPieces(await answer()), status, { ...headers, 'idempotent-replayed': 'true' });
}

/**
 * A stored body without the values that have been hidden from its caller since. Postgres removes them: parsing a body of up to
 * 16 MiB here would delay everybody's requests.
 */
async function keptAnswer(
  { app, caller, tx }: WriteContext & { tx: Tx },
  { kind, entityName }: WriteTarget,
  key: RequestKey,
  slots: string,
): Promise<string> {
  let answer = sql`answer`;
  const names = slots === '' ? null : (JSON.parse(slots) as AnswerNames);
  const mayRead = names?.isOfReader === false || allows(caller.rights, 'read', entityName);
  if (!mayRead || restrictionOn(caller.rights, entityName) !== undefined) {
    const catalog = await catalogWithin(app, tx, caller.tenant);
    const entity = catalog.byName.get(entityName);
    const isSame = entity !== undefined && (names === null || names.entityId === entity.id);
    const shown = isSame && mayRead ? shownOf(accessScopeOf(catalog, caller, entity), names) : SYSTEM_ONLY;
    answer = kind === 'bulk' ? shownResults(shown) : shownRecord(shown);
  }
  const row = await tx.first<{ answer: string }>(sql`
    select (${answer})::text as answer from platform.idempotency_keys where ${isKey(key)}`);
  return row?.answer ?? '';
}

/** The part of a kept record that the caller may see. */
type Shown = (record: Sql) => Sql;

const SYSTEM = Object.keys(SYSTEM_FIELDS);
const SYSTEM_ONLY: Shown = (record) => onlyVisible(record, SYSTEM);

/** `names` is null when an earlier version of the service stored the response. */
function shownOf({ entity, fields, rowFilter }: AccessScope, names: AnswerNames | null): Shown {
  const named = fields.filter(({ key, slot }) => names === null || names.slots[key] === slot);
  const visible = [...SYSTEM, ...named.map(({ key }) => key)];
  if (rowFilter === null) return (record) => onlyVisible(record, visible);
  const isSeen = toSql(rowFilter, sql`r`);
  return (record) => sql`case
    when exists (select from ${entity.table} as r where r.id = (${record} ->> 'id')::uuid and ${isSeen})
      then ${onlyVisible(record, visible)}
    else ${SYSTEM_ONLY(record)}
  end`;
}

function shownRecord(shown: Shown): Sql {
  return sql`jsonb_set(answer::jsonb, '{data}', ${shown(sql`(answer::jsonb -> 'data')`)})`;
}

function shownResults(shown: Shown): Sql {
  return sql`jsonb_set(answer::jsonb, '{data,results}', (
    select coalesce(jsonb_agg(
      case when jsonb_typeof(e.result -> 'data') = 'object'
        then jsonb_set(e.result, '{data}', ${shown(sql`(e.result -> 'data')`)})
        else e.result
      end order by e.n), '[]')
    from jsonb_array_elements(coalesce(answer::jsonb #> '{data,results}', '[]')) with ordinality as e (result, n)), false)`;
}

function onlyVisible(record: Sql, visible: readonly string[]): Sql {
  return sql`(
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') from jsonb_each(${record}) as m
    where m.key = any(${[...visible]}::text[]))`;
}

/** How many kept responses one statement searches, and how many characters of them. */
const PART = { rows: 200, length: 33_554_432 };

/**
 * Erases all but the system fields of a record in the tenant's kept responses. Each function erases a part, and resolves to
 * false at the end.
 */
export function eraseAnswers({ db }: App, { tenantId, recordId }: Erasure): (() => Promise<boolean>)[] {
  let after: [string, string, string] = ['', '', ''];
  const erasePart = async (): Promise<boolean> => {
    const row = await db.first<{ last: typeof after | null }>(sql`
      with part as materialized (
        select k.caller, k.route, k.key from (
          select caller, route, key, sum(octet_length(answer)) over (order by caller, route, key) - octet_length(answer) as before
          from (
            select * from platform.idempotency_keys
            where tenant_id = ${tenantId}::uuid and (caller, route, key) > (${after[0]}, ${after[1]}, ${after[2]})
            order by caller, route, key limit ${PART.rows}::int
          ) as n
        ) as k
        where k.before < ${PART.length}::int
      ), erased as (
        update platform.idempotency_keys as i
        set answer = (case when i.route like 'POST bulk/%' then ${erasedResults(recordId)} else ${shownRecord(SYSTEM_ONLY)} end)::text
        from part as p
        where i.tenant_id = ${tenantId}::uuid and i.caller = p.caller and i.route = p.route and i.key = p.key
          and strpos(i.answer, ${recordId}) > 0
          and (i.route like 'POST bulk/%' or i.answer::jsonb #>> '{data,id}' = ${recordId})
      )
      select jsonb_build_array(caller, route, key) as last from part order by caller desc, route desc, key desc limit 1`);
    after = row?.last ?? after;
    return row !== undefined;
  };
  return [erasePart];
}

function erasedResults(recordId: string): Sql {
  return sql`jsonb_set(answer::jsonb, '{data,results}', (
    select coalesce(jsonb_agg(
      case when e.result #>> '{data,id}' = ${recordId}
        then jsonb_set(e.result, '{data}', ${onlyVisible(sql`e.result -> 'data'`, SYSTEM)})
        else e.result
      end order by e.n), '[]')
    from jsonb_array_elements(coalesce(answer::jsonb #> '{data,results}', '[]')) with ordinality as e (result, n)), false)`;
}

async function store(
  { app, caller, tx }: WriteContext & { tx: Tx },
  { entityName }: WriteTarget,
  key: RequestKey,
  answer: Response,
): Promise<void> {
  const etag = answer.headers.get('etag');
  const entity = (await catalogWithin(app, tx, caller.tenant)).byName.get(entityName);
  const names: AnswerNames = {
    entityId: entity?.id ?? '',
    isOfReader: allows(caller.rights, 'read', entityName),
    slots: Object.fromEntries(entity?.fields.map(({ key: name, slot }) => [name, slot]) ?? []),
  };
  await tx.rows(sql`
    insert into platform.idempotency_keys (tenant_id, caller, route, key, body_hash, status, answer, headers, slots)
    values (${key.tenantId}::uuid, ${key.caller}, ${key.route}, ${key.key}, decode(${key.bodyHash}, 'hex'),
      ${answer.status}, ${await answer.text()}, ${JSON.stringify(etag === null ? {} : { etag })}::text::jsonb,
      ${JSON.stringify(names)})
    on conflict (tenant_id, caller, route, key) do update
    set body_hash = excluded.body_hash, status = excluded.status, answer = excluded.answer,
      headers = excluded.headers, slots = excluded.slots, created_at = now()`);
}
