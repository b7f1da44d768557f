// A statement that several callers ask for at once, such as the list that every dashboard reads again after a change, runs once
// for all who wait: two of the same run at once, and who asks meanwhile gets the rows of the next one. It begins after each of
// them has asked, so that nobody reads what was there before. Equal text and values are the same statement, row filters included.
// With 16 connections that read one list this takes a quarter of Postgres' time and half of the service's.
// Contract: interface#list, neighbours#byte-budgets.
import type { Entity } from '../../entities/field.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { SharedStatements } from '../../runtime/shared-statements.ts';
import { compile, type Queries, type Sql } from '../../runtime/sql.ts';
import { currentWork } from '../../runtime/work.ts';

/** Rows, which nobody may change, and the bytes received for them. */
interface Read {
  rows: readonly unknown[];
  bytes: number;
}

const UNLIMITED = Number.POSITIVE_INFINITY;
const shared = new SharedStatements<null, Read>({ itemsMax: UNLIMITED, waitingMax: UNLIMITED });

/** The rows of a statement on an entity's records. A dry run and a traced request have statements of their own. */
export async function readShared<T>(
  queries: Queries,
  entity: Entity,
  query: Sql,
  budget?: ByteBudget,
): Promise<readonly T[]> {
  if (queries.dryRun !== undefined || currentWork().trace !== null) return queries.rows<T>(query, budget);
  const takenBefore = budget?.taken ?? 0;
  let isOwn = false;
  const read = async (askers: readonly null[]): Promise<Read[]> => {
    isOwn = true;
    const rows = await queries.rows<T>(query, budget);
    const result = { rows, bytes: (budget?.taken ?? 0) - takenBefore };
    return askers.map(() => result);
  };
  const { text, parameters } = compile(query);
  const key = `${budget?.max} ${JSON.stringify(parameters)} ${text}`;
  const { rows, bytes } = (await shared.run(entity, key, null, read)) ?? ((await read([null]))[0] as Read);
  if (!isOwn) await budget?.takeWaiting(bytes);
  return rows as readonly T[];
}
