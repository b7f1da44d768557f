// What all parts of a process share: configuration, database, broker, log, cache invalidation, mail, metrics. Every
// operation takes it as its first argument. Opened once, closed in order. Fails to open when Postgres is unavailable or
// a migration fails. Contract: decisions#configuration, decisions#operations.
import type { Config } from './config.ts';
import type { Broker, QuotaWindow, TakenHits } from './runtime/broker/broker.ts';
import { MemoryBroker } from './runtime/broker/memory.ts';
import { RedisBroker } from './runtime/broker/redis.ts';
import { dryDatabase } from './runtime/dry-database.ts';
import { DryRun } from './runtime/dry-run.ts';
import { measureEventLoopDelay } from './runtime/event-loop-delay.ts';
import { Invalidations } from './runtime/invalidations.ts';
import { LastUsed } from './runtime/last-used.ts';
import type { Log } from './runtime/log.ts';
import { Mail } from './runtime/mail.ts';
import { Metrics, registerProcessMetrics } from './runtime/metrics.ts';
import { addVectorExtension, migratePlatform, type TenantSchema } from './runtime/migrate.ts';
import { endPatternThread } from './runtime/pattern-thread.ts';
import { type Database, openDatabase, type Transaction } from './runtime/postgres.ts';
import { Refusals } from './runtime/refusals.ts';
import { traceStatements } from './runtime/statement-spans.ts';
import { TenantCounters } from './runtime/tenant-counters.ts';
import type { Tracing } from './runtime/tracing.ts';

export interface App {
  readonly config: Config;
  readonly db: Database;
  readonly broker: Broker;
  readonly log: Log;
  readonly invalidations: Invalidations;
  readonly mail: Mail;
  readonly metrics: Metrics;
  readonly refusals: Refusals;
  readonly counters: TenantCounters;
  readonly lastUsed: LastUsed;
  /** Null unless spans are exported. */
  readonly tracing: Tracing | null;
  readonly tenantSchema: TenantSchema;
  /** Ends the measurement of the event loop's delay. */
  readonly stopMeasuring: () => void;
  /** The public URL, for links and the API document. Set once the service listens. */
  address: string;
  /** True while the service listens and is not shutting down; otherwise readiness answers 503. */
  isReady: boolean;
}

/**
 * With many busy tenants each has few connections: with 14, a tenant beside eight that attack waited for 50 ms in the middle, with
 * 8 for a second. The connections of all workers fit into PostgreSQL's usual 100.
 */
function requestConnections({ workers }: Config): number {
  return workers <= 3 ? 14 : 8;
}

/** Opens the database and the broker and migrates the platform schema. `databaseUrl` may be the embedded database's. */
export async function createApp(config: Config, databaseUrl: string, log: Log): Promise<App> {
  const counters = new TenantCounters();
  const tracing = await startTracing(config, log);
  const db = openDatabase({
    url: databaseUrl,
    log,
    isEmbedded: config.databaseUrl === null,
    ...(config.databaseUrl === null ? {} : { max: requestConnections(config) }),
    onStatements: (tenantId, ms) => {
      counters.of(tenantId).statementMs += ms;
    },
    ...(tracing === null ? {} : { onStatement: traceStatements(tracing) }),
  });
  const broker = config.redisUrl === null ? new MemoryBroker(log) : new RedisBroker(config.redisUrl, 'svc:', log);
  try {
    const tenantSchema = await migratePlatform(db, log);
    await addVectorExtension(db, log);
    const invalidations = await Invalidations.open(broker, log, config.redisUrl === null ? null : db);
    const { smtpUrl, mailFrom: from, dataDir } = config;
    const mail = new Mail({ smtpUrl, from, dataDir, log });
    const metrics = new Metrics();
    const refusals = new Refusals(metrics);
    const lastUsed = new LastUsed(db, log);
    registerProcessMetrics(metrics, db);
    metrics.queue('mail', () => mail.length);
    const stopMeasuring = measureEventLoopDelay(metrics);
    const state = { address: '', isReady: false };
    return {
      config,
      db,
      broker,
      log,
      invalidations,
      mail,
      metrics,
      refusals,
      counters,
      lastUsed,
      tracing,
      tenantSchema,
      stopMeasuring,
      ...state,
    };
  } catch (cause) {
    await broker.close();
    await db.close();
    throw cause;
  }
}

/**
 * Runs a call that leaves nothing behind: with an App of its own, whose database is one transaction that is rolled back. Its
 * caches, counters, invalidations and broker are its own too, so that nothing uncommitted becomes visible elsewhere. Resolves to
 * the result and what the call would have caused, which is added to a `dryRun` that is given. `isSlow` for calls that scan tables.
 */
export async function runDry<T>(
  app: App,
  { isSlow = false, dryRun = new DryRun() }: { isSlow?: boolean; dryRun?: DryRun },
  call: (dry: App, dryRun: DryRun) => Promise<T>,
): Promise<{ result: T; dryRun: DryRun }> {
  const broker = new AskingBroker(app.log, app.broker);
  const invalidations = await Invalidations.open(broker, app.log, null);
  let done: { result: T } | undefined;
  const work = async (tx: Transaction): Promise<never> => {
    const db = dryDatabase(app.db, tx, dryRun);
    done = { result: await call({ ...app, db, broker, invalidations, counters: new TenantCounters() }, dryRun) };
    throw new RolledBack();
  };
  try {
    await (isSlow ? app.db.slow : app.db).begin(work);
  } catch (error) {
    if (!(error instanceof RolledBack) || done === undefined) throw error;
    return { result: done.result, dryRun };
  }
  throw new Error('a dry run was committed');
}

/** Ends the transaction of a dry run. */
class RolledBack extends Error {}

/** The broker of a dry run: it takes no hits of the windows that all share, but asks whether they would fit. */
class AskingBroker extends MemoryBroker {
  constructor(
    log: Log,
    private readonly shared: Broker,
  ) {
    super(log);
  }

  override async take({ key, windowMs, quota }: QuotaWindow, hits: number): Promise<TakenHits> {
    return this.shared.take({ key, windowMs, quota: quota - hits }, 0);
  }

  override async giveBack(): Promise<void> {}
}

/** Loads the OpenTelemetry SDK only when spans are exported. */
async function startTracing({ telemetry }: Config, log: Log): Promise<Tracing | null> {
  if (telemetry === null) return null;
  const { Tracing } = await import('./runtime/tracing.ts');
  return new Tracing(telemetry, log);
}

/**
 * A value per App, created on first use: `const cacheOf = perApp((app) => new Cache(...))`. `cacheOf.set` sets or
 * replaces the App's value.
 */
export function perApp<T>(make: (app: App) => T) {
  const values = new WeakMap<App, T>();
  const get = (app: App): T => {
    const known = values.get(app);
    if (known !== undefined) return known;
    const made = make(app);
    values.set(app, made);
    return made;
  };
  return Object.assign(get, { set: (app: App, value: T) => void values.set(app, value) });
}

/** Sends queued mail and stores when credentials were last used, then closes the broker and the database. Workers and streams must have ended. */
export async function closeApp(app: App): Promise<void> {
  app.stopMeasuring();
  await app.mail.close();
  await app.lastUsed.close();
  await app.invalidations.close();
  await app.broker.close();
  await app.db.close();
  await app.tracing?.close();
  await endPatternThread();
}
