// Evaluates conditions on the rows of one write, stored or not. The related rows that conditions need are read for many rows at
// once, with only the fields that conditions name, and kept within a byte budget: a write of a thousand records costs few
// queries and little memory. Between comparisons it yields to other work, and it stops when the client has gone.
// Contract: decisions#expressions, neighbours#fair-shares.
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { surelyAt } from '../../entities/past-images.ts';
import { clientGone } from '../../errors.ts';
import { comparisons, type Expression, relationKeys, type StoredRow } from '../../expression/ast.ts';
import { type EvaluationContext, evaluateInSteps } from '../../expression/evaluate.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { isUuid } from '../../runtime/ids.ts';
import { type Queries, sql } from '../../runtime/sql.ts';
import { currentWork, isGone } from '../../runtime/work.ts';
import { type RecordRow, storedRow } from '../row.ts';

/**
 * Bytes of the related rows in memory. Each target gets an equal share: half for the rows that are kept, half for those read at
 * once.
 */
const KEPT_BYTES = 8_388_608;
const WINDOW_ROWS = { first: 256, max: 1_000 };

/** The related rows that one relation field refers to. */
interface Target {
  readonly relation: Field;
  readonly source: Entity;
  readonly entity: Entity;
  /** The slots that conditions name. */
  readonly slots: Set<string>;
  /** The related rows by id; undefined for a record that does not exist. */
  readonly rows: Map<string, StoredRow | undefined>;
  bytes: number;
  windowRows: number;
  /** The ids that further rows of the write may refer to, in the order of the rows, and their positions. */
  expected: string[];
  readonly positions: Map<string, number>;
}

/** The values of a relation field in the rows of the write, in their order. */
type ValuesOf = (field: Field) => Iterable<unknown>;

export class Evaluator {
  readonly #targets = new Map<string, Target>();
  /** The relations of the conditions so far. */
  readonly #relations = new Map<Expression, readonly string[]>();
  /** The announced values, by entity id. */
  readonly #expected = new Map<string, ValuesOf>();

  constructor(
    private readonly queries: Queries,
    private readonly catalog: Catalog,
  ) {}

  /** Announces the rows of an entity on which conditions will be evaluated next. */
  expect(entity: Entity, values: ValuesOf): void {
    this.#expected.set(entity.id, values);
    for (const target of this.#targets.values()) {
      if (target.source.id === entity.id) setExpected(target, values(target.relation));
    }
  }

  /** Announces a condition, so that the related rows of all announced conditions are read together. Returns its relations. */
  include(entity: Entity, condition: Expression): readonly string[] {
    const known = this.#relations.get(condition);
    if (known !== undefined) return known;
    const keys = relationKeys(condition);
    this.#relations.set(condition, keys);
    for (const { subject } of comparisons(condition)) {
      const relation = subject.through && entity.byKey.get(subject.through.field.key);
      const target = relation && this.#targetOf(entity, relation);
      if (!target || subject.field.slot === null) continue;
      if (target.slots.has(subject.field.slot)) continue;
      target.slots.add(subject.field.slot);
      forget(target);
    }
    return keys;
  }

  /** Whether the row matches the condition. Only rules pass `change`. */
  async meets(
    entity: Entity,
    condition: Expression,
    row: RecordRow,
    change: Pick<EvaluationContext, 'old' | 'changed'> = {},
  ): Promise<boolean> {
    const turn = giveWay();
    if (turn !== undefined) await resume(turn);
    const related = new Map<string, StoredRow | undefined>();
    for (const key of this.include(entity, condition)) related.set(key, await this.#relatedRow(entity, key, row));
    const context = { ...change, related: (key: string) => related.get(key) };
    const steps = evaluateInSteps(condition, storedRow(row, entity.id), context);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      const turn = giveWay();
      if (turn !== undefined) await resume(turn);
    }
  }

  /** Whether a record surely matched the condition when it had this image. */
  met(entity: Entity, condition: Expression, image: RecordRow, at: string): Promise<boolean> {
    return this.meets(entity, surelyAt(entity, condition, at), image);
  }

  #targetOf(entity: Entity, relation: Field): Target | undefined {
    const found = this.catalog.byId.get(relation.targetId ?? '');
    if (found === undefined) return undefined;
    const key = `${entity.id} ${relation.key}`;
    let target = this.#targets.get(key);
    if (target === undefined) {
      target = newTarget(entity, relation, found);
      this.#targets.set(key, target);
      setExpected(target, this.#expected.get(entity.id)?.(relation) ?? []);
    }
    return target;
  }

  async #relatedRow(entity: Entity, key: string, row: RecordRow): Promise<StoredRow | undefined> {
    const relation = entity.byKey.get(key);
    const id = relation && row.data[relation.slot];
    const target = relation && this.#targetOf(entity, relation);
    if (typeof id !== 'string' || target === undefined) return undefined;
    if (!target.rows.has(id)) await this.#read(target, id);
    return target.rows.get(id);
  }

  /** Reads a row, and as many of the next expected rows as the budget allows. */
  async #read(target: Target, id: string): Promise<void> {
    const budget = Math.ceil(KEPT_BYTES / 2 / this.#targets.size);
    const ids = windowFrom(target, id);
    const { table } = target.entity;
    const slots = [...target.slots];
    const found = await this.queries.rows<RecordRow & { n: number; bytes: number; total: number }>(sql`
      with found as materialized (
        select i.n, r.id, r.version, r.created_at, r.updated_at, r.created_by, r.updated_by, coalesce((
            select jsonb_object_agg(s.slot, r.data -> s.slot) from unnest(${slots}::text[]) as s (slot)
            where r.data ? s.slot
          ), '{}') as data
        from unnest(${ids}::uuid[]) with ordinality as i (id, n)
        join ${table} as r on r.id = i.id
      ), measured as (
        select f.*, octet_length(f.data::text) as bytes, sum(octet_length(f.data::text)) over (order by f.n) as total
        from found as f
      )
      select n::int, id, version, created_at, updated_at, created_by, updated_by, bytes, total::float8 as total,
        case when total <= ${budget}::int or n = 1 then data end as data
      from measured`);
    if (target.bytes > budget) forget(target);
    const left = new Set(ids);
    for (const { n, bytes, total, ...row } of found) {
      left.delete(row.id);
      if (row.data === null) continue;
      target.rows.set(row.id, storedRow(row, target.entity.id));
      target.bytes += bytes;
    }
    for (const missing of left) target.rows.set(missing, undefined);
    const kept = found.filter(({ data }) => data !== null).length;
    target.windowRows = kept < found.length ? Math.max(1, kept * 2) : Math.min(target.windowRows * 4, WINDOW_ROWS.max);
  }
}

function newTarget(source: Entity, relation: Field, entity: Entity): Target {
  const rows = { rows: new Map(), bytes: 0, windowRows: WINDOW_ROWS.first };
  return { source, relation, entity, slots: new Set(), ...rows, expected: [], positions: new Map() };
}

function forget(target: Target): void {
  target.rows.clear();
  target.bytes = 0;
}

function setExpected(target: Target, values: Iterable<unknown>): void {
  const { positions } = target;
  const expected: string[] = [];
  target.expected = expected;
  positions.clear();
  for (const value of values) {
    const id = typeof value === 'string' && isUuid(value) ? value.toLowerCase() : undefined;
    if (id === undefined || positions.has(id)) continue;
    positions.set(id, expected.push(id) - 1);
  }
}

function windowFrom({ rows, expected, positions, windowRows }: Target, id: string): string[] {
  const ids = [id];
  const position = positions.get(id) ?? expected.length;
  for (let i = position + 1; i < expected.length && ids.length < windowRows; i++) {
    const next = expected[i] as string;
    if (!rows.has(next)) ids.push(next);
  }
  return ids;
}

/** Throws when the client has gone meanwhile. */
async function resume(turn: Promise<void>): Promise<void> {
  await turn;
  if (isGone(currentWork())) throw clientGone();
}
