// The records of a document: validated as the API validates values, and stored with their versions, times and authors, in batches
// that are bounded in rows and bytes. They are not visible yet, so they cause no events, deliveries or rule runs.
// Relations may refer to records of later lines: SQL over the stored tables checks them at the end.
// Failures: 400 with every problem of a line.
// Contract: portability#import.
import { Type } from '@sinclair/typebox';
import type { App } from '../app.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import { createIndex, indexName, timeIndex } from '../entities/indexes.ts';
import { patternValues, withMatches } from '../entities/patterns.ts';
import { searchVector } from '../entities/search-vector.ts';
import { IS_REQUIRED, readPatch, type SlotValues } from '../entities/values.ts';
import { invalid, invalidField, type Problem } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { check } from '../http/check.ts';
import { closed, Ignored, nullable, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { BatchWriting } from '../records/transfer/batch-writing.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { timeOf } from '../runtime/ids.ts';
import { EMPTY, inputRows, literal, type Sql, sql } from '../runtime/sql.ts';
import { type JsonObject, jsonTextBytes } from '../runtime/text.ts';
import type { ArrivingTenant, Stored } from './arriving.ts';
import { faultAt } from './faults.ts';
import type { Mask, MaskOf } from './mask.ts';
import { type IdMap, mappedAuthor } from './new-ids.ts';
import { timeProblems } from './times.ts';

const { batchRows, batchBytesMax } = LIMITS.transfer;
const AUTHOR_MAX = 200;
/** Leaves room for later versions, which must be distinct numbers, since an ETag is a version. */
const VERSION_MAX = 2 ** 52;

const RecordLine = closed({
  type: Ignored,
  entity: Type.String(),
  version: Type.Integer({ minimum: 1, maximum: VERSION_MAX }),
  data: Type.Object({}, { additionalProperties: true }),
});
const Author = nullable(Type.String({ maxLength: AUTHOR_MAX }));
const System = Type.Object({
  id: Uuid,
  entityId: Uuid,
  createdAt: Type.String(),
  updatedAt: Type.String(),
  createdBy: Author,
  updatedBy: Author,
});

const COLUMNS = ['uuid', 'text', 'text', 'bigint', 'timestamptz', 'timestamptz', 'text', 'text', 'int'] as const;
/** The index of the line number in a row. */
const LINE = COLUMNS.length - 1;

/** Records of one entity that are written together. */
interface Batch {
  entity: Entity;
  rows: unknown[][];
  bytes: number;
}

export class Records {
  readonly stored = new Map<string, Stored>();
  /** Entities with a record whose id does not give its creation time. */
  readonly #outOfIdOrder = new Set<Entity>();
  #batch: Batch | null = null;
  readonly #writing: BatchWriting;

  constructor(
    private readonly app: App,
    private readonly arriving: ArrivingTenant,
    private readonly catalog: Catalog,
    private readonly ids: IdMap,
    private readonly maskOf: MaskOf,
  ) {
    this.#writing = new BatchWriting(app);
    for (const id of catalog.byId.keys()) this.stored.set(id, { records: 0, bytes: 0 });
  }

  async add(line: number, members: JsonObject): Promise<void> {
    const { entity: name, version, data } = check(RecordLine, members);
    const entity = this.catalog.byName.get(name);
    if (entity === undefined) throw invalidField('entity', 'is not an entity of the document');
    const { system, values } = this.#parted(entity, data as JsonObject);
    const own = await this.#valuesOf(entity, values);
    const stored = JSON.stringify(own);
    const bytes = jsonTextBytes(stored, own);
    if (bytes > LIMITS.recordBytesMax) {
      throw invalidField('data', `the values take more than ${LIMITS.recordBytesMax} bytes as JSON`);
    }
    if (this.#batch !== null && this.#batch.entity !== entity) await this.#flush();
    this.#batch ??= { entity, rows: [], bytes: 0 };
    const vector = await searchVector(entity, own);
    const { createdAt, updatedAt } = system;
    const authors = [mappedAuthor(this.ids, system.createdBy), mappedAuthor(this.ids, system.updatedBy)];
    const id = this.ids(system.id);
    if (timeOf(id) !== Date.parse(createdAt)) this.#outOfIdOrder.add(entity);
    this.#batch.rows.push([id, stored, vector, version, createdAt, updatedAt, ...authors, line]);
    this.#batch.bytes += bytes + (vector?.length ?? 0);
    if (this.#batch.rows.length >= batchRows || this.#batch.bytes >= batchBytesMax) await this.#flush();
  }

  /** Writes the last batch and checks that relations refer to existing records. */
  async end(): Promise<void> {
    await this.#flush();
    await this.#writing.written();
    for (const entity of this.catalog.byId.values()) {
      for (const field of entity.fields) if (field.targetId !== null) await this.#checkRelations(entity, field);
    }
    for (const entity of this.#outOfIdOrder) await this.#orderByTime(entity);
  }

  async #orderByTime(entity: Entity): Promise<void> {
    await this.app.db.slow.rows(createIndex(entity, timeIndex(entity)));
    await this.app.db.slow.rows(sql`
      update ${this.arriving.own('entity_definitions')} set is_in_id_order = false where id = ${entity.id}::uuid`);
  }

  /** Waits until the current batch is written or has failed. */
  async stop(): Promise<void> {
    await this.#writing.ended();
  }

  #parted(entity: Entity, data: JsonObject) {
    const system = ofData(() => check(System, data, timeProblems));
    const isOwn = this.ids(system.entityId) === entity.id;
    if (!isOwn) throw invalidField('data.entityId', `is not the id of ${entity.name}`);
    const values: JsonObject = {};
    for (const key of Object.keys(data)) if (!Object.hasOwn(SYSTEM_FIELDS, key)) values[key] = data[key];
    return { system, values };
  }

  /** The values in stored form, masked. */
  async #valuesOf(entity: Entity, values: JsonObject): Promise<SlotValues> {
    const read = await withMatches(patternValues(entity, values), () => readPatch(entity, values, () => true));
    const { data, problems } = read;
    const faulty = new Set(problems.map(({ path }) => path));
    for (const field of entity.fields) {
      const { slot, key, required } = field;
      if (data[slot] === null) delete data[slot];
      const value = data[slot];
      if (value === undefined) {
        if (required && !faulty.has(key)) problems.push({ path: key, message: IS_REQUIRED });
      } else if (field.targetId !== null) {
        data[slot] = Array.isArray(value) ? value.map((id) => this.ids(id as string)) : this.ids(value as string);
      }
      const mask = this.maskOf(field);
      if (mask !== undefined && data[slot] !== undefined) masked(data, slot, mask);
    }
    if (problems.length > 0) throw invalid(problems.map(inData));
    return data;
  }

  /** Starts writing the batch; the next one is read meanwhile. */
  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = null;
    if (batch !== null) await this.#writing.start(() => this.#write(batch));
  }

  async #write({ entity, rows }: Batch): Promise<void> {
    try {
      const inserted = await this.#insert(entity, rows);
      const stored = this.stored.get(entity.id) as Stored;
      stored.records += rows.length;
      stored.bytes += inserted;
    } catch (error) {
      if (!isDuplicate(error)) throw error;
      await this.#nameDuplicate(entity, rows);
      throw error;
    }
  }

  /** Resolves to the bytes of the values. */
  async #insert(entity: Entity, rows: readonly unknown[][]): Promise<number> {
    const result = await this.app.db.slow.first<{ bytes: number }>(sql`
      with input (id, data, vector, version, created_at, updated_at, created_by, updated_by, line) as (
        ${inputRows(COLUMNS, rows)}
      ), inserted as (
        insert into ${entity.table} as r
          (id, entity_id, data, search_vector, version, created_at, updated_at, created_by, updated_by)
        select id, ${literal(entity.id)}::uuid, data::jsonb, vector::tsvector, version, created_at, updated_at, created_by, updated_by
        from input
        returning octet_length(r.data::text) as bytes
      )${this.#keepLines(entity)}
      select coalesce(sum(bytes), 0)::float8 as bytes from inserted`);
    return result?.bytes ?? 0;
  }

  #keepLines(entity: Entity): Sql {
    if (!entity.fields.some(({ targetId }) => targetId !== null)) return EMPTY;
    return sql`, kept as (
      insert into ${this.arriving.lines} (entity_id, id, line) select ${literal(entity.id)}::uuid, id, line from input
    )`;
  }

  /** Inserts the rows one by one until one is refused. */
  async #nameDuplicate(entity: Entity, rows: readonly unknown[][]): Promise<void> {
    for (const row of rows) {
      try {
        await this.#insert(entity, [row]);
      } catch (error) {
        if (!isDuplicate(error)) throw error;
        const { constraint_name: constraint } = error as { constraint_name?: string };
        const field = entity.fields.find((one) => indexName(entity, one, 'unique') === constraint);
        const path = `data.${field?.key ?? 'id'}`;
        throw faultAt(row[LINE] as number, invalidField(path, 'another record of the document has the same'));
      }
      await giveWay();
    }
  }

  async #checkRelations(entity: Entity, { key, slot, type, targetId }: Field): Promise<void> {
    const target = this.catalog.byId.get(targetId ?? '');
    if (target === undefined) return;
    const value = sql`r.data -> ${literal(slot)}`;
    const targets =
      type === 'relation'
        ? sql`(select (r.data ->> ${literal(slot)})::uuid as id)`
        : sql`(select t::uuid as id from jsonb_array_elements_text(${value}) as t)`;
    const missing = await this.app.db.slow.first<{ line: number; id: string }>(sql`
      select l.line, v.id from ${entity.table} as r
      cross join lateral ${targets} as v
      join ${this.arriving.lines} as l on l.id = r.id and l.entity_id = r.entity_id
      where ${value} is not null and not exists (select from ${target.table} as t where t.id = v.id)
      order by l.line limit 1`);
    if (missing === undefined) return;
    throw faultAt(missing.line, invalidField(`data.${key}`, `no such record of ${target.name} in the document`));
  }
}

function masked(data: SlotValues, slot: string, mask: Mask): void {
  const value = mask(data[slot]);
  if (value === null) delete data[slot];
  else data[slot] = value;
}

function isDuplicate(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === '23505';
}

/** Reads the members of `data`; the paths of their problems begin with `data`. */
function ofData<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { details } = error as { details?: readonly Problem[] };
    throw details === undefined ? error : invalid(details.map(inData));
  }
}

function inData({ path, message }: Problem): Problem {
  return { path: `data.${path}`, message };
}
