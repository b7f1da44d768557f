// Concurrent creations of one caller and entity share a statement: two statements of such a group run at once, and what
// arrives meanwhile waits until one of them has ended and is then inserted together. A creation that arrives alone does not
// wait. When the shared statement fails or inserts nothing, each row is tried alone, so that it fails for its own reasons.
// With 16 connections this halves a creation's CPU, in the service and in Postgres.
// Failures: those of each record alone; 503 for all while the database is unavailable. Units: rows, bytes of JSON.
import type { Entity } from '../../entities/field.ts';
import { ServiceError } from '../../errors.ts';
import { type Cause, currentTrace } from '../../events/outbox.ts';
import { ROWS_OF_KEPT_PLAN } from '../../events/publication.ts';
import { jsonBytes } from '../../runtime/text.ts';
import { withoutSignal } from '../../runtime/work.ts';
import { areWritesLimited } from '../../usage/write-quotas.ts';
import type { Writing } from './context.ts';
import { insertRows, type RelationTarget } from './statements.ts';
import type { PreparedRow } from './triggers.ts';

/** Statements of a group that run at once: with more, fewer rows share one. */
const RUNNING_MAX = 2;
/** What waits in a group; further ones are tried alone. */
const WAITING_MAX = 64;
/** Rows of a statement, and the bytes of all but the first. */
const ROWS_MAX = ROWS_OF_KEPT_PLAN;
const BYTES_MAX = 262_144;

/** A row to insert, and the records that it points at. */
interface Insertion {
  row: PreparedRow;
  targets: readonly RelationTarget[];
}

/** What happens to a row that waits: its statement is next, it was inserted with another, or it has to be tried alone. */
type Turn = 'next' | 'alone' | 'inserted';

interface Waiting extends Insertion {
  turn: PromiseWithResolvers<Turn>;
}

/** The creations of one caller, made for one version of an entity's definition. */
interface Group {
  running: number;
  waiting: Waiting[];
}

/** By definition, then by caller. Groups go with the definition when it leaves the cache. */
const groups = new WeakMap<Entity, Map<string, Group>>();

/** Inserts a row. Resolves to false when the definition has changed or a target is missing. */
export async function insertTogether(writing: Writing, entity: Entity, own: Insertion): Promise<boolean> {
  if (!canJoin(writing, entity, own)) return insertAlone(writing, entity, own);
  const key = keyOf(writing.publication.cause);
  const byKey = groups.get(entity) ?? new Map<string, Group>();
  groups.set(entity, byKey);
  const group = byKey.get(key) ?? { running: 0, waiting: [] };
  byKey.set(key, group);
  if (group.waiting.length >= WAITING_MAX) return insertAlone(writing, entity, own);
  if (group.running < RUNNING_MAX) group.running++;
  else {
    const turn = Promise.withResolvers<Turn>();
    group.waiting.push({ ...own, turn });
    const outcome = await turn.promise;
    if (outcome === 'alone') return insertAlone(writing, entity, own);
    if (outcome === 'inserted') return true;
  }
  try {
    return await insertWith(writing, entity, own, takeOthers(group.waiting));
  } finally {
    const next = group.waiting.shift();
    if (next !== undefined) next.turn.resolve('next');
    else if (--group.running === 0) byKey.delete(key);
  }
}

/**
 * Rows with unique values stay alone: two statements of several could wait for each other's. So do rows whose outcome an output
 * takes from the statement, rows that start rules, writes near a quota, and traced requests.
 */
function canJoin({ tx, publication, caller }: Writing, entity: Entity, { row, targets }: Insertion): boolean {
  return (
    tx === null &&
    publication.isUnobserved &&
    entity.subscribed['record.created'] === undefined &&
    !areWritesLimited(caller) &&
    row.starts.length === 0 &&
    targets.every(({ rowFilter }) => rowFilter === null) &&
    !entity.fields.some(({ unique, next }) => unique || next !== undefined) &&
    currentTrace() === null
  );
}

function keyOf({ actor, triggeredBy, depth, rootEventId, importId }: Cause): string {
  return JSON.stringify([actor, triggeredBy, depth, rootEventId, importId]);
}

async function insertAlone(writing: Writing, entity: Entity, { row, targets }: Insertion): Promise<boolean> {
  return (await insertRows(writing.publication, entity, [row], targets)).length === 1;
}

/** Inserts the row together with others that wait. */
async function insertWith(
  writing: Writing,
  entity: Entity,
  own: Insertion,
  others: readonly Waiting[],
): Promise<boolean> {
  if (others.length === 0) return insertAlone(writing, entity, own);
  const all = [own, ...others];
  const rows = all.map(({ row }) => row);
  try {
    // The others wait for it too, whether or not the client of this one has gone.
    const insert = () => insertRows(writing.publication, entity, rows, merged(all));
    const isInserted = (await withoutSignal(insert)).length === rows.length;
    for (const { turn } of others) turn.resolve(isInserted ? 'inserted' : 'alone');
    if (isInserted) return true;
  } catch (error) {
    if (error instanceof ServiceError) {
      for (const { turn } of others) turn.reject(error);
      throw error;
    }
    for (const { turn } of others) turn.resolve('alone');
  }
  return insertAlone(writing, entity, own);
}

/** Takes from those that wait as many as fit one statement. */
function takeOthers(waiting: Waiting[]): Waiting[] {
  let bytes = 0;
  const tooMany = waiting.findIndex(({ row }, i) => {
    bytes += jsonBytes(row.data);
    return bytes > BYTES_MAX || i + 1 >= ROWS_MAX;
  });
  return waiting.splice(0, tooMany < 0 ? waiting.length : tooMany);
}

/** Each table once. */
function merged(insertions: readonly Insertion[]): RelationTarget[] {
  const byTable = Map.groupBy(
    insertions.flatMap(({ targets }) => targets),
    ({ table }) => table,
  );
  return [...byTable].map(([table, targets]) => ({
    table,
    ids: [...new Set(targets.flatMap(({ ids }) => ids))],
    rowFilter: null,
  }));
}
