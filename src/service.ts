// One serving process: the order in which its parts start, and how it drains requests when it stops.
// Database, application, partitions, workers, server, demo, then "ready"; stages close in the reverse
// order. Contract: decisions#configuration, decisions#operations.
import { setTimeout as delay } from 'node:timers/promises';
import { startRestoring } from './admin/tenant-deletion.ts';
import { createApi, handlerOf } from './api.ts';
import { type App, closeApp, createApp } from './app.ts';
import type { Config } from './config.ts';
import { prepareDemo } from './demo.ts';
import { cleanUpInterruptedTenants } from './entities/cleanup.ts';
import { completeIndexesOnce } from './entities/index-completion.ts';
import { startSearchRebuilds } from './entities/search-rebuild.ts';
import { openHub } from './events/hub.ts';
import { ensurePartitions, startRetention, warnOfFewLocks } from './events/retention.ts';
import { served, setsIdle } from './http/own-idle.ts';
import { LIMITS } from './limits.ts';
import { closeMcpStreams } from './mcp/routes.ts';
import { startDropping } from './portability/arriving.ts';
import { openRealtime } from './realtime/realtime.ts';
import { socketHandler } from './realtime/websocket-endpoint.ts';
import { startErasures } from './records/erase/worker.ts';
import { startSlowLists } from './records/read/slow-lists.ts';
import { startRules } from './rules/worker.ts';
import { collectsGarbage } from './runtime/garbage.ts';
import type { Log } from './runtime/log.ts';
import type { Stages } from './runtime/stages.ts';
import { startWorker, type Worker } from './runtime/worker.ts';
import type { Running } from './serve/contract.ts';
import { addressOf } from './serve/request.ts';
import { serve } from './serve/serve.ts';
import { isFirstWorker, isWorkerProcess } from './serve/supervisor.ts';
import { connectWorker } from './serve/worker-messages.ts';
import { checkClaimsOnce } from './tenants/custom-domains.ts';
import { upgradeTenants } from './tenants/upgrade.ts';
import { startStorageMeasurement } from './usage/storage.ts';
import { startUsage } from './usage/usage-writer.ts';
import { Dispatcher } from './webhooks/dispatch/dispatcher.ts';

/** Seconds without traffic after which a connection is closed. */
const IDLE_SECONDS = 60;
/** The runtime's limit. Body readers enforce lower ones; an import is streamed and may have any size. */
const BODY_CEILING_BYTES = 2 ** 40;
/** The part of SHUTDOWN_TIMEOUT_MS for requests in flight; the later stages get the rest. */
const DRAIN_SHARE = 0.6;
/** The part for workers after that. What they have not done is done after the next start. */
const WORK_SHARE = 0.25;
/** The part after which nothing waits for the database any more: others may hold its locks for longer. */
const DATABASE_SHARE = 0.9;

/** A listening service, and the lines to print on the console. */
export interface Service {
  app: App;
  lines: readonly string[];
}

/**
 * Starts every part and immediately adds it to `stages`. Stops between two parts when `signal` aborts; rejects if one
 * fails.
 */
export async function startService(config: Config, log: Log, stages: Stages, signal: AbortSignal): Promise<Service> {
  const app = await createApp(config, config.databaseUrl ?? (await openEmbedded(config, log, stages)), log);
  stages.add('broker and database', () => closeApp(app));
  limitDatabase(app, signal);
  if (isWorkerProcess()) app.metrics.collectSnapshots = connectWorker(() => app.metrics.snapshot());
  signal.throwIfAborted();
  await upgradeTenants(app, signal);
  await preparePartitions(app);
  await warnOfFewLocks(app);
  const usage = startUsage(app);
  stages.add('usage', () => usage.stop());
  const workers = [
    startStorageMeasurement(app),
    startRetention(app),
    startFieldCleanup(app),
    startIndexCompletion(app),
    startRules(app),
    startDomainChecks(app),
    startErasures(app),
    startDropping(app),
    startRestoring(app),
    startSearchRebuilds(app),
    startSlowLists(app),
  ];
  const dispatcher = Dispatcher.start(app);
  stages.add('webhooks and workers', async () => {
    const late = delay(config.shutdownTimeoutMs * WORK_SHARE, undefined, { ref: false });
    const stopped = Promise.all(workers.map((worker) => worker.stop()));
    await Promise.all([dispatcher.stop(), Promise.race([stopped, late])]);
  });
  signal.throwIfAborted();
  await listen(app, stages);
  const lines = isFirstWorker() ? await prepareDemo(app, signal) : [];
  signal.throwIfAborted();
  app.isReady = true;
  stages.add('readiness', async () => {
    app.isReady = false;
  });
  return { app, lines };
}

/** Ends the calls of the database that are left when the time of the shutdown is nearly over. They have changed nothing, or all. */
function limitDatabase({ db, config }: App, stopping: AbortSignal): void {
  const limit = (): void => {
    setTimeout(() => void db.close(0), config.shutdownTimeoutMs * DATABASE_SHARE).unref();
  };
  stopping.addEventListener('abort', limit, { once: true });
}

/** Cleans up after interrupted field changes, of this process or another: until then, writes must satisfy two definitions. */
function startFieldCleanup(app: App): Worker {
  return startWorker({
    name: 'field changes',
    once: () => cleanUpInterruptedTenants(app),
    pollMs: 5_000,
    log: app.log,
  });
}

/** Completes indexes that a change of this process or another has left. */
function startIndexCompletion(app: App): Worker {
  return startWorker({ name: 'indexes', once: () => completeIndexesOnce(app), pollMs: 60_000, log: app.log });
}

/** Verifies custom domains whose DNS record has appeared. */
function startDomainChecks(app: App): Worker {
  return startWorker({ name: 'custom domains', once: () => checkClaimsOnce(app), pollMs: 60_000, log: app.log });
}

/** A backup may lock the table. The service starts anyway: events go to the default partition meanwhile. */
async function preparePartitions(app: App): Promise<void> {
  try {
    await ensurePartitions(app);
  } catch (error) {
    app.log.warn('could not create the event partitions yet; the worker retries', { error });
  }
}

/** Loaded only when needed: an external Postgres uses none of it. */
async function openEmbedded(config: Config, log: Log, stages: Stages): Promise<string> {
  const { startEmbedded } = await import('./runtime/embedded.ts');
  const embedded = await startEmbedded(config.dataDir, log);
  stages.add('embedded database', () => embedded.stop());
  return embedded.url;
}

async function listen(app: App, stages: Stages): Promise<void> {
  const { config, log } = app;
  const hub = await openHub(app);
  stages.add('live events', () => hub.close());
  const realtime = openRealtime(app);
  const running = await serveApp(app);
  stages.add('server', () => drain(running, log, config.shutdownTimeoutMs * DRAIN_SHARE));
  stages.add('streams', () => Promise.all([realtime.close(), closeMcpStreams(app)]));
}

/** Starts the server of an open application and sets its address. */
export async function serveApp(app: App): Promise<Running> {
  const { config, log } = app;
  const answer = handlerOf(app, createApi(app));
  const running: Running = await serve({
    hostname: config.host,
    port: config.port,
    maxBody: BODY_CEILING_BYTES,
    idleSeconds: IDLE_SECONDS,
    silentSeconds: LIMITS.connection.silentMs / 1_000,
    reusePort: config.workers > 1,
    fetch: async (request, address, refusal) => {
      const response = await answer(request, address, refusal);
      if (isEventStream(response)) running.idle(request, streamIdleSeconds(config));
      else served(request, (seconds) => running.idle(request, seconds));
      return response;
    },
    report: (error) => log.error('the server reported an error', { cause: error }),
    socket: { ...socketHandler(app), onSlowReader: () => app.refusals.count('SLOW_READER') },
  });
  setsIdle(app, IDLE_SECONDS, (request, seconds) => running.idle(request, seconds));
  const { collectGarbage } = running;
  if (collectGarbage !== undefined) collectsGarbage(collectGarbage);
  app.address = addressOf(config.host, running.port);
  return running;
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}

/** Heartbeats keep a stream's connection open; the server closes one that misses several. */
function streamIdleSeconds({ sse }: Config): number {
  return Math.max(30, Math.ceil((3 * sse.heartbeatMs) / 1_000));
}

/** Accepts no new connections; requests in flight finish, or are aborted after `graceMs`. */
async function drain(running: Running, log: Log, graceMs: number): Promise<void> {
  const finished = new AbortController();
  const stopped = running.stop().finally(() => finished.abort());
  const cut = delay(graceMs, undefined, { signal: finished.signal }).then(
    async () => {
      log.warn('aborting requests that did not finish in time', { graceMs });
      await running.stop(true);
    },
    // The timer was cancelled: every request has finished.
    () => stopped,
  );
  await Promise.race([stopped, cut]);
}
