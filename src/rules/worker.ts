// The worker of after rules. The statement of a change inserts its rule runs. The effect of a run, its event and its deletion commit
// together, so the run takes effect exactly once. Runs of one record execute in the order of its changes. Depth and length of the chain
// travel with the run: a run beyond either limit only appends rule.failed.
// Failures: a 4xx of the action becomes rule.failed at once, any other error after some attempts (runs.ts).
// Contract: decisions#rules, neighbours#fair-shares.
import { systemCaller } from '../access/caller.ts';
import { type App, perApp } from '../app.ts';
import { type Catalog, catalogWithin, loadCatalog } from '../entities/catalog.ts';
import type { Entity, Rule } from '../entities/field.ts';
import { ServiceError } from '../errors.ts';
import { appendEvent } from '../events/outbox.ts';
import { notifyCommitted, registerOutput } from '../events/publication.ts';
import { LIMITS } from '../limits.ts';
import { businessRuleError, conditionOf, hasStartedRulesWithin } from '../records/write/triggers.ts';
import { BackgroundRead } from '../runtime/background-read.ts';
import type { Tx } from '../runtime/sql.ts';
import { isUnavailable } from '../runtime/unavailability.ts';
import { forTenant } from '../runtime/work.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { isDeleted, type Tenant } from '../tenants/tenants.ts';
import { beginCounted } from '../usage/tally.ts';
import { perform, type RuleRun, runCause } from './actions.ts';
import { claimRun, countRuns, giveBack, retryLater, takeRun, tenantsWithDueRuns } from './runs.ts';
import { TenantTurns } from './tenant-turns.ts';

/** Parallel loops in a process. A tenant holds at most half of them. */
const LOOPS = 6;
/** Runs of each loop in one `runRulesOnce`. */
const ROUND_RUNS = 100;
const POLL_MS = 1_000;
/** How often the loops look for runs of tenants without a turn, which other processes may have queued. */
const LOOK_MS = 100;
/**
 * The pause after a search, as a multiple of the time that the search took. While statements run long, a search passes over thousands of
 * rows of ended runs: beside eight attacks, searches took more than half of a processor.
 */
const LOOK_PAUSE = 20;

/** The state that the loops of a process share. */
interface Loops {
  turns: TenantTurns;
  /** The search for tenants with due runs that is in progress, and when the next search is due. */
  looking: Promise<void> | undefined;
  looksAt: number;
  /** Claimed runs that did not begin, because the database became unavailable. */
  unstarted: RuleRun[];
}

const loopsOf = perApp<Loops>(() => ({
  turns: new TenantTurns(LOOPS),
  looking: undefined,
  looksAt: Number.NEGATIVE_INFINITY,
  unstarted: [],
}));

/** Starts the loops. Each loop continues while another one executes a long run. A change in this process that starts rules wakes them. */
export function startRules(app: App): Worker {
  const once = async (): Promise<number> => ((await runNext(app, false)) ? 1 : 0);
  const start = (): Worker => startWorker({ name: 'rules', once, pollMs: POLL_MS, log: app.log });
  const workers = Array.from({ length: LOOPS }, start);
  registerQueue(app);
  registerOutput(app, {
    onCommitted: ({ tenantId }) => {
      if (!hasStartedRulesWithin(POLL_MS)) return;
      loopsOf(app).turns.add(tenantId);
      for (const worker of workers) worker.nudge();
    },
  });
  return {
    nudge: () => {
      for (const worker of workers) worker.nudge();
    },
    stop: async () => void (await Promise.all(workers.map((worker) => worker.stop()))),
  };
}

/** Shows how many runs wait, including those that wait for a retry. */
function registerQueue(app: App): void {
  const onError = (error: unknown): void => app.log.debug('metrics: cannot count rule runs', { error });
  const count = new BackgroundRead(() => countRuns(app.db.slow), onError);
  app.metrics.queue('rules', () => count.latest());
}

/** Executes due runs; resolves to their number, which is 0 only if none was due. */
export async function runRulesOnce(app: App, signal: AbortSignal): Promise<number> {
  const executeRuns = async (): Promise<number> => {
    let done = 0;
    while (!signal.aborted && done < ROUND_RUNS && (await runNext(app, true))) done += 1;
    return done;
  };
  const counts = await Promise.all(Array.from({ length: LOOPS }, executeRuns));
  return counts.reduce((sum, done) => sum + done, 0);
}

/** Executes a due run of the tenant whose turn it is; false when no due run is known or, with `isSure`, when none exists. */
async function runNext(app: App, isSure: boolean): Promise<boolean> {
  const loops = loopsOf(app);
  const { turns } = loops;
  await giveBackUnstarted(app, loops);
  if (performance.now() > loops.looksAt) await look(app, loops);
  for (let hasLooked = !isSure; ; ) {
    const turn = turns.begin();
    if (turn === undefined) {
      if (hasLooked) return false;
      await look(app, loops);
      hasLooked = true;
      continue;
    }
    const { tenantId, end } = turn;
    try {
      const run = await forTenant(tenantId, () => claimRun(app.db, tenantId));
      if (run === undefined) turns.remove(tenantId);
      else {
        await forTenant(tenantId, () => execute(app, run));
        return true;
      }
    } finally {
      end();
    }
  }
}

/** Finds the tenants with due runs. A search in progress may have missed runs queued since it began; the loops share the next search. */
async function look(app: App, loops: Loops): Promise<void> {
  await loops.looking;
  if (loops.looking !== undefined) return loops.looking;
  const search = async (): Promise<void> => {
    const startedAt = performance.now();
    loops.looksAt = startedAt + LOOK_MS;
    for (const tenantId of await tenantsWithDueRuns(app.db)) loops.turns.add(tenantId);
    const endedAt = performance.now();
    loops.looksAt = endedAt + Math.min(Math.max(LOOK_MS, LOOK_PAUSE * (endedAt - startedAt)), POLL_MS);
  };
  loops.looking = search().finally(() => {
    loops.looking = undefined;
  });
  return loops.looking;
}

async function giveBackUnstarted(app: App, loops: Loops): Promise<void> {
  const runs = loops.unstarted;
  if (runs.length === 0) return;
  loops.unstarted = [];
  try {
    await giveBack(app.db, runs);
  } catch (error) {
    loops.unstarted.push(...runs);
    throw error;
  }
}

/** Executes a claimed run. Rejects only when it did not begin, because the database is unavailable. */
async function execute(app: App, run: RuleRun): Promise<void> {
  let hasBegun = false;
  try {
    if (run.attempts > LIMITS.rules.triesMax) throw new Error('the last attempt ended with its process');
    await beginCounted(app, async (tx) => {
      const tenant = await takeRun(tx, run);
      hasBegun = true;
      if (tenant !== undefined) await act(app, tx, tenant, run);
    });
  } catch (error) {
    if (!hasBegun && isUnavailable(error)) {
      loopsOf(app).unstarted.push(run);
      throw error;
    }
    await endAttempt(app, run, error);
  }
  notifyCommitted(app, { tenantId: run.tenant_id });
}

/** Performs the action of a run that the transaction has taken. Nothing happens when its rule is gone. */
async function act(app: App, tx: Tx, tenant: Tenant, run: RuleRun): Promise<void> {
  const known = await loadRule(app, tx, tenant, run);
  if (known === null) return;
  const { rule, entity, catalog } = known;
  requireWithinLimits(run);
  const chain = { depth: run.depth, rootEventId: run.root_event_id, runs: run.runs };
  const caller = systemCaller(tenant, { triggeredBy: 'rule', chain });
  conditionOf(catalog, caller, entity, rule);
  const result = await perform({ app, caller, tx }, entity, rule.action, run);
  await appendRuleEvent(tx, 'rule.executed', run, known, { result });
}

function requireWithinLimits({ depth, runs }: RuleRun): void {
  const { chainDepthMax, chainChangesMax } = LIMITS.rules;
  if (runs > chainChangesMax) {
    const most = chainChangesMax.toLocaleString('en');
    throw businessRuleError(`the chain of rules has started ${most} runs, the most that one change may start`);
  }
  if (depth >= chainDepthMax) throw businessRuleError(`the chain of rules has reached depth ${chainDepthMax}`);
}

interface KnownRule {
  rule: Rule;
  entity: Entity;
  catalog: Catalog;
}

/** The current rule and entity; null when one of them no longer exists. */
async function loadRule(app: App, tx: Tx, tenant: Tenant, run: RuleRun): Promise<KnownRule | null> {
  // The cached catalog may be older than the rule.
  for (const load of [() => catalogWithin(app, tx, tenant), () => loadCatalog(tx, tenant)]) {
    const catalog = await load();
    const entity = catalog.byId.get(run.entity_id);
    const rule = entity?.rules.find(({ id }) => id === run.rule_id);
    if (entity !== undefined && rule !== undefined) return { rule, entity, catalog };
  }
  return null;
}

/** After the rollback of a failed attempt: appends rule.failed, or sets the time of the next attempt. */
async function endAttempt(app: App, run: RuleRun, error: unknown): Promise<void> {
  const { triesMax } = LIMITS.rules;
  // A rate limit (429) passes, so the run is tried again.
  const isFinal = error instanceof ServiceError && error.status < 500 && error.status !== 429;
  // The runs of a deleted tenant are gone.
  if (!isFinal && (await isDeleted(app, run.tenant_id))) return;
  if (!isFinal) app.log.warn('a rule failed', { rule: run.rule_id, attempts: run.attempts, cause: error });
  try {
    if (!isFinal && run.attempts < triesMax) return await retryLater(app.db, run);
    await beginCounted(app, async (tx) => {
      const tenant = await takeRun(tx, run);
      const known = tenant && (await loadRule(app, tx, tenant, run));
      if (!known) return;
      const message = isFinal ? error.message : `gave up after ${triesMax} attempts`;
      await appendRuleEvent(tx, 'rule.failed', run, known, { error: message });
    });
  } catch (cause) {
    // The claim has set the time of the next attempt.
    if (!isUnavailable(cause)) throw cause;
    app.log.warn('the end of a rule run could not be stored', { rule: run.rule_id, cause });
  }
}

async function appendRuleEvent(
  tx: Tx,
  type: 'rule.executed' | 'rule.failed',
  run: RuleRun,
  { rule, entity, catalog }: KnownRule,
  outcome: { result: object } | { error: string },
): Promise<void> {
  const data = {
    rule_name: rule.name,
    trigger_type: rule.trigger,
    entity: entity.name,
    record_id: run.id,
    ...outcome,
  };
  // By id: another entity may get the name.
  const target = rule.action.type === 'create_record' ? catalog.byName.get(rule.action.entity) : entity;
  const about = { entity: entity.name, entityId: entity.id, recordId: run.id };
  await appendEvent(tx, type, runCause(run), { data, target: target?.id ?? null }, about);
}
