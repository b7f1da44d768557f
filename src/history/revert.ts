// Undoes the changes of a span of time, or of an import, newest first: created records are deleted, changed ones get their
// former values, deleted ones come back. Each undo is a separate change through the ordinary write path, in batches like those
// of an import and with the rights that the caller has at that time. A record that somebody changed afterwards is left alone,
// and so is a created record that others refer to by now. A call ends after a while; calling again continues, since undone
// records are skipped.
// Failures: 400, 403, 404.
// Contract: history#revert.
import { type Static, Type } from '@sinclair/typebox';
import type { CallerNow } from '../access/authenticate.ts';
import { requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import { type Problem, ServiceError } from '../errors.ts';
import { check } from '../http/check.ts';
import { closed, nullable, Uuid } from '../http/schemas.ts';
import { applyIndependently } from '../records/batch/independent.ts';
import { importWriters } from '../records/transfer/batch-writing.ts';
import { spanOfImport } from '../records/transfer/import-log.ts';
import { autocommit, inTransaction } from '../records/write/context.ts';
import { idsReferredTo } from '../records/write/deletion.ts';
import { updateRecord } from '../records/write/write.ts';
import { Semaphore } from '../runtime/concurrency.ts';
import { keepGarbageSmall } from '../runtime/garbage.ts';
import { isUuid } from '../runtime/ids.ts';
import { type Sql, sql } from '../runtime/sql.ts';
import { currentWork, forTenant } from '../runtime/work.ts';
import { inFittingParts } from './fitting-parts.ts';
import { restoreRecord } from './restore.ts';
import {
  formerBody,
  type TouchedPart,
  type TouchedRecord,
  touchedIn,
  touchedRecords,
  type Undo,
  undosOf,
} from './revert-plan.ts';

/** How long a call runs, in milliseconds, and how many conflicts it lists. */
const CALL_MS = 40_000;
const CONFLICTS_LISTED = 1_000;
/** How many reverts a process runs at once, half of them for one tenant: a revert that touches 100,000 records holds 20 MB. */
const places = new Semaphore({ slots: 2, shareWaitingMax: 20, waitMs: 2 * CALL_MS });

const Time = Type.Optional(Type.String({ examples: ['2026-03-01T09:00:00.000Z'] }));
export const RevertInput = closed({
  importId: Type.Optional(Type.String({ description: 'of the report of an import; in place of a span' })),
  actor: Type.Optional(nullable(Type.String(), { description: 'only what this id has done; null: the super-admin' })),
  triggered_by: Type.Optional(Type.String({ description: 'only changes made this way', examples: ['api'] })),
  entity: Type.Optional(Type.String({ description: 'only records of this entity', examples: ['companies'] })),
  from: Time,
  to: Time,
  dryRun: Type.Optional(
    Type.Boolean({
      description: 'answers what would be undone, as far as that is known without writing',
      examples: [true],
    }),
  ),
});
type RevertInput = Static<typeof RevertInput>;

export const Reverted = Type.Object({
  reverted: Type.Integer({ minimum: 0, description: 'records' }),
  conflicts: Type.Array(
    Type.Object({
      entity: Type.String(),
      record_id: Uuid,
      reason: Type.String({ examples: ['it has been changed since'] }),
    }),
    { description: `left alone; the first ${CONFLICTS_LISTED} are listed` },
  ),
  conflictCount: Type.Integer({ minimum: 0 }),
  skipped: Type.Integer({ minimum: 0, description: 'records that are as they were before' }),
  hasMore: Type.Boolean({
    description: 'whether the time was over before the end: run it again to go on',
    examples: [false],
  }),
});
type Reverted = Static<typeof Reverted>;

export async function revertChanges(
  app: App,
  caller: TenantCaller,
  body: RevertInput,
  callerNow: CallerNow,
): Promise<Reverted> {
  requireTenantAdmin(caller);
  const input = check(RevertInput, body, problemsOf);
  const condition = await conditionOf(app, caller, input);
  const signal = currentWork().signal?.();
  // Runs as the tenant's background work: the batches are bounded like those of an import, and must not keep a place among the
  // large calls.
  return forTenant(caller.tenant.id, async () => {
    const isCut = (): boolean => signal?.aborted === true;
    const revert = new Revert(app, callerNow, input.dryRun === true);
    return places.run(async () => {
      const collected = keepGarbageSmall();
      try {
        return isCut() ? revert.result : await revert.run(await touchedRecords(app, caller, condition), isCut);
      } finally {
        collected();
      }
    });
  });
}

function problemsOf({ importId, from, to, ...others }: Partial<RevertInput>): Problem[] {
  const isTime = (text: unknown): boolean =>
    typeof text === 'string' &&
    /^\d{4}-\d{2}-\d{2}T.*(Z|[+-]\d{2}:?\d{2})$/.test(text) &&
    !Number.isNaN(Date.parse(text));
  if (importId !== undefined) {
    const given = { from, to, actor: others.actor, triggered_by: others.triggered_by, entity: others.entity };
    const beside = Object.entries(given).filter(([, value]) => value !== undefined);
    const problems = beside.map(([path]) => ({ path, message: 'must not stand beside importId' }));
    return isUuid(importId) ? problems : [{ path: 'importId', message: 'must be the id of an import' }, ...problems];
  }
  const problems: Problem[] = [];
  for (const [path, value] of Object.entries({ from, to })) {
    if (value === undefined) problems.push({ path, message: 'is required, or importId' });
    else if (!isTime(value)) problems.push({ path, message: 'must be a time with a zone, as 2026-01-31T12:00:00Z' });
  }
  if (problems.length === 0 && Date.parse(String(to)) <= Date.parse(String(from))) {
    problems.push({ path: 'to', message: 'must be after from' });
  }
  return problems;
}

/** 404 for an entity or import that does not exist. */
async function conditionOf(
  app: App,
  caller: TenantCaller,
  { importId, actor, triggered_by: triggeredBy, entity, from = '', to = '' }: RevertInput,
): Promise<Sql> {
  if (importId !== undefined) {
    const { first, last } = await spanOfImport(app, caller, importId);
    return sql`import_id = ${importId}::uuid and seq > ${first}::bigint and seq <= ${last}::bigint`;
  }
  const end = Math.min(Date.parse(to), Date.now());
  const parts = [
    sql`at >= ${new Date(from).toISOString()}::timestamptz and at < ${new Date(end).toISOString()}::timestamptz`,
    actor === undefined ? sql`true` : sql`actor is not distinct from ${actor}`,
    triggeredBy === undefined ? sql`true` : sql`triggered_by = ${triggeredBy}`,
  ];
  if (entity !== undefined) {
    const found = (await catalogOf(app, caller.tenant)).byName.get(entity);
    if (found === undefined) throw new ServiceError('NOT_FOUND', 'entity not found');
    parts.push(sql`entity_id = ${found.id}::uuid`);
  }
  return parts.reduce((all, part) => sql`${all} and ${part}`);
}

/** Consecutive records of one entity that are undone in the same way. */
type Run = { entityName: string; kind: Undo['kind']; undos: [TouchedRecord, Undo][] };

class Revert {
  readonly result: Reverted = { reverted: 0, conflicts: [], conflictCount: 0, skipped: 0, hasMore: false };

  constructor(
    private readonly app: App,
    private readonly callerNow: CallerNow,
    private readonly isDry: boolean,
  ) {}

  async run(touched: readonly TouchedPart[], isCut: () => boolean): Promise<Reverted> {
    const until = performance.now() + CALL_MS;
    const isOver = (): boolean => isCut() || performance.now() > until;
    this.result.hasMore = !(await inFittingParts(touched, touchedIn, (part) => this.#undo(part), isOver));
    return this.result;
  }

  async #undo(records: readonly TouchedRecord[]): Promise<void> {
    const caller = requireTenantAdmin(await this.callerNow());
    const writer = { ...caller, triggeredBy: 'system' } as const;
    const catalog = await catalogOf(this.app, caller.tenant);
    const undos = await undosOf(this.app, catalog, records);
    const leave = await importWriters(this.app).enter(currentWork());
    try {
      for (const run of runsOf(catalog, undos)) await this.#undoRun(writer, catalog, run);
    } finally {
      leave();
    }
  }

  async #undoRun(writer: TenantCaller, catalog: Catalog, run: Run): Promise<void> {
    const { entityName, kind, undos } = run;
    if (kind === 'skip') {
      this.result.skipped += undos.length;
      return;
    }
    if (kind === 'conflict') {
      for (const [record, undo] of undos) this.#conflict(record, undo.kind === 'conflict' ? undo.reason : '');
      return;
    }
    const free = kind === 'delete' && !this.isDry ? await this.#withoutReferring(catalog, run) : undos;
    if (this.isDry) {
      this.result.reverted += free.length;
      return;
    }
    if (kind === 'return') {
      for (const [record, undo] of free) await this.#bringBack(writer, catalog, record, undo);
      return;
    }
    const items = free.map(([{ recordId: id }, undo], index) => ({
      index,
      id,
      body: undo.kind === 'update' ? undo.body : {},
      versions: undo.kind === 'update' || undo.kind === 'delete' ? [undo.version] : null,
    }));
    const outcomes = await applyIndependently(this.app, writer, entityName, { op: kind, items }, () => null);
    for (const [index, outcome] of outcomes) this.#count(free[index]?.[0] as TouchedRecord, outcome);
  }

  /**
   * Leaves out records that others refer to: deleting them would delete or change records that others made, or that were made
   * later.
   */
  async #withoutReferring(catalog: Catalog, { undos }: Run): Promise<[TouchedRecord, Undo][]> {
    const entity = catalog.byId.get(undos[0]?.[0].entityId ?? '');
    if (entity === undefined || entity.references.length === 0) return undos;
    let free = undos;
    for (;;) {
      const ids = free.map(([{ recordId }]) => recordId);
      const referred = await idsReferredTo(this.app.db, entity, ids);
      if (referred.size === 0) return free;
      // A record that stays may refer to others of the batch.
      for (const [record] of free)
        if (referred.has(record.recordId)) this.#conflict(record, 'other records refer to it');
      free = free.filter(([{ recordId }]) => !referred.has(recordId));
    }
  }

  /** Brings a record back in one transaction: if it cannot get its former values, it stays deleted. */
  async #bringBack(writer: TenantCaller, catalog: Catalog, record: TouchedRecord, undo: Undo): Promise<void> {
    const entity = catalog.byId.get(record.entityId);
    if (undo.kind !== 'return' || entity === undefined) return;
    try {
      await inTransaction(autocommit(this.app, writer), async (context) => {
        const { row } = await restoreRecord(context, entity.name, record.recordId, { version: undo.version });
        const body = formerBody(entity, row, undo.event);
        if (Object.keys(body).length > 0) {
          await updateRecord(context, entity.name, record.recordId, body, [row.version]);
        }
      });
      this.#count(record, null);
    } catch (error) {
      this.#count(record, error);
    }
  }

  #count(record: TouchedRecord, outcome: unknown): void {
    if (!(outcome instanceof Error)) this.result.reverted += 1;
    else if (!(outcome instanceof ServiceError) || outcome.status >= 500) throw outcome;
    else if (outcome.ecode === 'PRECONDITION_FAILED' || outcome.ecode === 'NOT_FOUND') {
      this.#conflict(record, 'it has been changed since');
    } else {
      const [problem] = outcome.details ?? [];
      this.#conflict(record, problem === undefined ? outcome.message : `${problem.path}: ${problem.message}`);
    }
  }

  #conflict({ entity, recordId }: TouchedRecord, reason: string): void {
    this.result.conflictCount += 1;
    if (this.result.conflicts.length >= CONFLICTS_LISTED) return;
    this.result.conflicts.push({ entity, record_id: recordId, reason });
  }
}

function runsOf(catalog: Catalog, undos: ReadonlyMap<TouchedRecord, Undo>): Run[] {
  const runs: Run[] = [];
  for (const [record, undo] of undos) {
    const entityName = catalog.byId.get(record.entityId)?.name ?? record.entity;
    const last = runs.at(-1);
    if (last?.entityName === entityName && last.kind === undo.kind) last.undos.push([record, undo]);
    else runs.push({ entityName, kind: undo.kind, undos: [[record, undo]] });
  }
  return runs;
}
