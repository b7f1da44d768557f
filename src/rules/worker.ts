// After rules at work. A run was noted by the statement that made the change; its effect, the event
// that tells of it and the run's end commit together, so that it acts once, whatever is killed when.
// Runs of one record act in the order of its changes. Depth travels with the run: a change made at
// the limit starts nothing, and says so with rule.failed.
// Failures: a refusal is rule.failed; anything else is tried again, a few times.
// Contract: decisions#rules.
import { systemCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { catalogWithin, loadCatalog } from '../entities/catalog.ts';
import type { Entity } from '../entities/field.ts';
import type { Rule } from '../entities/rule.ts';
import { ServiceError } from '../errors.ts';
import { appendEvent } from '../events/outbox.ts';
import { notifyCommitted, registerOutput } from '../events/publication.ts';
import { LIMITS } from '../limits.ts';
import { businessRuleError, conditionOf, startedLately } from '../records/write/triggers.ts';
import { sql, type Tx } from '../runtime/sql.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { TENANT_COLUMNS, type Tenant, type TenantRow, toTenant } from '../tenants/tenants.ts';
import { perform, type RuleRun, runCause } from './actions.ts';

/** Runs at once in one process, and how many one round takes before it looks whether to stop. */
const CONCURRENCY = 4;
const ROUND_RUNS = 100;
const POLL_MS = 1_000;
const RETRY_MS = 1_000;
const BEFORE_FIRST_TENANT = '00000000-0000-0000-0000-000000000000';

/** Starts the worker; a change that starts rules in this process wakes it. */
export function startRules(app: App): Worker {
  const once = (signal: AbortSignal): Promise<number> => runRulesOnce(app, signal);
  const worker = startWorker({ name: 'rules', once, pollMs: POLL_MS, log: app.log });
  registerOutput(app, {
    onCommitted: () => {
      if (startedLately(POLL_MS)) worker.nudge();
    },
  });
  return worker;
}

/** Runs what is due; resolves to how many runs that were. */
export async function runRulesOnce(app: App, signal: AbortSignal): Promise<number> {
  const lane = async (): Promise<number> => {
    let done = 0;
    let served: string | null = BEFORE_FIRST_TENANT;
    while (!signal.aborted && done < ROUND_RUNS) {
      served = await runNext(app, served);
      if (served === null) break;
      done += 1;
    }
    return done;
  };
  const lanes = await Promise.all(Array.from({ length: CONCURRENCY }, lane));
  return lanes.reduce((sum, done) => sum + done, 0);
}

/** Does one run, of the tenant that is next after `served`, if one is due; resolves to its tenant. */
async function runNext(app: App, served: string): Promise<string | null> {
  const claimed: { run?: RuleRun | undefined } = {};
  try {
    await app.db.begin(async (tx) => {
      claimed.run = (await claim(tx, served)) ?? (await claim(tx, BEFORE_FIRST_TENANT));
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
 * The first run that is due and has none of its record before it, of the first tenant after `served` that has one;
 * locked, others skip it. Tenants take turns, so that one with a million runs delays nobody else's.
 */
async function claim(tx: Tx, served: string): Promise<RuleRun | undefined> {
  return tx.first<RuleRun>(sql`
    select r.position, r.event_id, r.rule_id, r.tenant_id, r.entity_id, r.record_id as id, r.version, r.data,
      r.created_at, r.updated_at, r.created_by, r.updated_by, r.depth, r.root_event_id, r.attempts
    from platform.rule_runs as r
    where r.tenant_id > ${served}::uuid and r.next_at <= now()
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

/** The rule, its entity and tenant as they are now; null when one of them is gone. */
async function loadRule(app: App, tx: Tx, run: RuleRun) {
  const row = await tx.first<TenantRow>(sql`
    select ${TENANT_COLUMNS} from platform.tenants where id = ${run.tenant_id}::uuid`);
  if (row === undefined) return null;
  const tenant: Tenant = toTenant(row);
  // A copy of the catalogue may be older than the rule.
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

/** What could not be done, after all of it was undone: for good, or until it is tried again. */
async function failRun(app: App, tx: Tx, run: RuleRun, error: unknown): Promise<void> {
  const isRefusal = error instanceof ServiceError && error.status < 500;
  if (!isRefusal) {
    app.log.warn('a rule could not act', { rule: run.rule_id, attempts: run.attempts + 1, cause: error });
    if (run.attempts + 1 < LIMITS.rules.triesMax) return scheduleRetry(tx, run);
  }
  if (!(await deleteRun(tx, run))) return;
  const known = await loadRule(app, tx, run);
  if (known === null) return;
  await appendRuleEvent(tx, 'rule.failed', run, known.rule, known.entity, {
    error: isRefusal ? error.message : 'internal error',
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
