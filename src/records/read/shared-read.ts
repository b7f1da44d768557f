// Shares a read that several callers request at once, such as the list that every dashboard reloads after a change. At most two
// equal statements run at a time. Callers that arrive meanwhile share the next one, which starts after each of them has asked,
// so no caller gets rows older than its request. Statements are equal when their texts and values are equal, row filters
// included. With 16 connections on one list, Postgres needs 0.4 times the CPU and the service half.
// Contract: interface#list, neighbours#byte-budgets.
import type { Entity } from '../../entities/field.ts';
import type { ByteBudget } from '../../runtime/byte-budget.ts';
import { SharedStatements } from '../../runtime/shared-statements.ts';
import { compile, type Queries, type Sql } from '../../runtime/sql.ts';
import { currentWork } from '../../runtime/work.ts';

/** The rows, shared and therefore read-only, and the bytes received for them. */
interface Read {
  rows: readonly unknown[];
  bytes: number;
}

const UNLIMITED = Number.POSITIVE_INFINITY;
const shared = new SharedStatements<null, Read>({ itemsMax: UNLIMITED, waitingMax: UNLIMITED });

/** The rows of a statement on an entity's records. A dry run and a traced request do not share statements. */
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
  // A read always resolves to a result.
  const { rows, bytes } = (await shared.run(entity, key, null, read)) as Read;
  if (!isOwn) await budget?.takeWaiting(bytes);
  return rows as readonly T[];
}
