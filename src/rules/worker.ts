// The worker of after rules. The statement of a change inserts its rule runs; the effect of a run, its event and its
// deletion commit together, so that the run takes effect exactly once. Runs of one record execute in the order of its changes.
// The chain depth travels with the run: at the limit a change starts no further rule and appends rule.failed.
// Failures: a 4xx of the action becomes rule.failed at once, any other error after some retries.
// Contract: decisions#rules.
import { systemCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { catalogWithin, loadCatalog } from '../entities/catalog.ts';
import type { Entity, Rule } from '../entities/field.ts';
import { ServiceError } from '../errors.ts';
import { appendEvent } from '../events/outbox.ts';
import { notifyCommitted, registerOutput } from '../events/publication.ts';
import { LIMITS } from '../limits.ts';
import { businessRuleError, conditionOf, haveStartedWithin } from '../records/write/triggers.ts';
import { BackgroundRead } from '../runtime/background-read.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { TENANT_COLUMNS, type Tenant, type TenantRow, toTenant } from '../tenants/tenants.ts';
import { perform, type RuleRun, runCause } from './actions.ts';

/** Parallel loops in a process, and the runs of each loop in one round. */
const CONCURRENCY = 4;
const ROUND_RUNS = 100;
const POLL_MS = 1_000;
const RETRY_MS = 1_000;
const BEFORE_FIRST_TENANT = '00000000-0000-0000-0000-000000000000';

/** A change in this process that starts rules wakes the worker. */
export function startRules(app: App): Worker {
  const once = (signal: AbortSignal): Promise<number> => runRulesOnce(app, signal);
  const worker = startWorker({ name: 'rules', once, pollMs: POLL_MS, log: app.log });
  registerQueue(app);
  registerOutput(app, {
    onCommitted: () => {
      if (haveStartedWithin(POLL_MS)) worker.nudge();
    },
  });
  return worker;
}

/** Shows how many runs wait, including those that wait for a retry. */
function registerQueue(app: App): void {
  const countRuns = (): Promise<{ count: number } | undefined> =>
    app.db.slow.first(sql`select count(*)::float8 as count from platform.rule_runs`);
  const runs = new BackgroundRead(countRuns, (error) => app.log.debug('metrics: cannot count rule runs', { error }));
  app.metrics.queue('rules', async () => (await runs.latest())?.count ?? null);
}

/** Executes the due runs; resolves to their number. */
export async function runRulesOnce(app: App, signal: AbortSignal): Promise<number> {
  const executeRuns = async (): Promise<number> => {
    let done = 0;
    let previous: string | null = BEFORE_FIRST_TENANT;
    while (!signal.aborted && done < ROUND_RUNS) {
      previous = await runNext(app, previous);
      if (previous === null) break;
      done += 1;
    }
    return done;
  };
  const counts = await Promise.all(Array.from({ length: CONCURRENCY }, executeRuns));
  return counts.reduce((sum, done) => sum + done, 0);
}

/** Executes a due run of the next tenant after `previous`; resolves to its tenant, or null without one. */
async function runNext(app: App, previous: string): Promise<string | null> {
  const claimed: { run?: RuleRun | undefined } = {};
  try {
    await app.db.begin(async (tx) => {
      claimed.run = (await claim(tx, previous)) ?? (await claim(tx, BEFORE_FIRST_TENANT));
      if (claimed.run !== undefined) await complete(app, tx, claimed.run);
    });
  } catch (error) {
    const { run } = claimed;
    if (run === undefined || isUnavailable(error)) throw error;
    await app.db.begin((tx) => failRun(app, tx, run, error));
  }
  if (claimed.run === undefined) return null;
  notifyCommitted(app, { tenantId: claimed.run.tenant_id });
  return claimed.run.tenant_id;
}

function isUnavailable(error: unknown): boolean {
  return error instanceof ServiceError && error.ecode === 'SERVICE_UNAVAILABLE';
}

/**
 * Locks the first due run that is not blocked by an earlier one of its record, of the first tenant after `previous` that
 * has one. The round robin keeps a tenant with a million runs from delaying the others.
 */
async function claim(tx: Tx, previous: string): Promise<RuleRun | undefined> {
  return tx.first<RuleRun>(sql`
    select r.position, r.event_id, r.rule_id, r.tenant_id, r.entity_id, r.record_id as id, r.version, r.data,
      r.created_at, r.updated_at, r.created_by, r.updated_by, r.depth, r.root_event_id, r.attempts
    from platform.rule_runs as r
    where r.tenant_id > ${previous}::uuid and r.next_at <= now()
      and not exists (
        select from platform.rule_runs as e where e.record_id = r.record_id and e.position < r.position)
    order by r.tenant_id, r.position
    limit 1
    for update of r skip locked`);
}

async function complete(app: App, tx: Tx, run: RuleRun): Promise<void> {
  const known = await loadRule(app, tx, run);
  await deleteRun(tx, run);
  if (known === null) return;
  const { rule, entity, tenant, catalog } = known;
  const { chainDepthMax } = LIMITS.rules;
  if (run.depth >= chainDepthMax) throw businessRuleError(`the chain of rules has reached depth ${chainDepthMax}`);
  const chain = { depth: run.depth, rootEventId: run.root_event_id };
  const caller = systemCaller(tenant, { triggeredBy: 'rule', chain });
  conditionOf(catalog, caller, entity, rule);
  const result = await perform({ app, caller, tx }, entity, rule.action, run);
  await appendRuleEvent(tx, 'rule.executed', run, rule, entity, { result });
}

/** The current rule, entity and tenant; null when one of them no longer exists. */
async function loadRule(app: App, tx: Tx, run: RuleRun) {
  const row = await tx.first<TenantRow>(sql`
    select ${TENANT_COLUMNS} from platform.tenants where id = ${run.tenant_id}::uuid`);
  if (row === undefined) return null;
  const tenant: Tenant = toTenant(row);
  // The cached catalog may be older than the rule.
  for (const catalog of [await catalogWithin(app, tx, tenant), await loadCatalog(tx, tenant)]) {
    const entity = catalog.byId.get(run.entity_id);
    const rule = entity?.rules.find(({ id }) => id === run.rule_id);
    if (entity !== undefined && rule !== undefined) return { rule, entity, tenant, catalog };
  }
  return null;
}

async function deleteRun(tx: Tx, run: RuleRun): Promise<boolean> {
  const ended = await tx.first(sql`
    delete from platform.rule_runs where position = ${run.position}::bigint returning position`);
  return ended !== undefined;
}

/** After the rollback of a failed run: appends rule.failed, or schedules a retry. */
async function failRun(app: App, tx: Tx, run: RuleRun, error: unknown): Promise<void> {
  const isFinal = error instanceof ServiceError && error.status < 500;
  if (!isFinal) {
    app.log.warn('a rule failed', { rule: run.rule_id, attempts: run.attempts + 1, cause: error });
    if (run.attempts + 1 < LIMITS.rules.triesMax) return scheduleRetry(tx, run);
  }
  if (!(await deleteRun(tx, run))) return;
  const known = await loadRule(app, tx, run);
  if (known === null) return;
  await appendRuleEvent(tx, 'rule.failed', run, known.rule, known.entity, {
    error: isFinal ? error.message : 'internal error',
  });
}

async function scheduleRetry(tx: Tx, run: RuleRun): Promise<void> {
  await tx.rows(sql`
    update platform.rule_runs
    set attempts = attempts + 1, next_at = now() + ${RETRY_MS * 2 ** run.attempts}::int * interval '1 ms'
    where position = ${run.position}::bigint`);
}

async function appendRuleEvent(
  tx: Tx,
  type: 'rule.executed' | 'rule.failed',
  run: RuleRun,
  rule: Rule,
  entity: Entity,
  outcome: { result: object } | { error: string },
): Promise<void> {
  const data = {
    rule_name: rule.name,
    trigger_type: rule.trigger,
    entity: entity.name,
    record_id: run.id,
    ...outcome,
  };
  await appendEvent(tx, type, runCause(run), { data }, { entity: entity.name, recordId: run.id });
}
