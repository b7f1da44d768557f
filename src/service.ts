// One serving process: what it opens, in order, and how long it waits for requests when it closes.
// Database, application, partitions and workers, server, demo, and only then "ready"; the stages are
// closed in the opposite order. Contract: decisions#configuration, decisions#operations.
import { setTimeout as delay } from 'node:timers/promises';
import { createApi, handlerOf } from './api.ts';
import { type App, closeApp, createApp } from './app.ts';
import type { Config } from './config.ts';
import { prepareDemo } from './demo.ts';
import { cleanUpInterruptedTenants } from './entities/cleanup.ts';
import { openHub } from './events/hub.ts';
import { ensurePartitions, startRetention } from './events/retention.ts';
import { closeMcpStreams } from './mcp/routes.ts';
import { openRealtime } from './realtime/realtime.ts';
import { socketHandler } from './realtime/websocket.ts';
import { startRules } from './rules/worker.ts';
import type { Log } from './runtime/log.ts';
import type { Stages } from './runtime/stages.ts';
import { startWorker, type Worker } from './runtime/worker.ts';
import type { Running } from './serve/contract.ts';
import { addressOf } from './serve/request.ts';
import { serve } from './serve/serve.ts';
import { isFirstWorker, isWorkerProcess } from './serve/supervisor.ts';
import { connectWorker } from './serve/worker-messages.ts';
import { upgradeTenants } from './tenants/upgrade.ts';
import { Dispatcher } from './webhooks/dispatch/dispatcher.ts';

/** Seconds without traffic after which a connection is closed. */
const IDLE_SECONDS = 60;
/** The runtime's own ceiling. Readers of bodies enforce theirs; an import is read as it comes, of any size. */
const BODY_CEILING_BYTES = 2 ** 40;
/** The part of SHUTDOWN_TIMEOUT_MS that requests in flight get; the rest is for what comes after them. */
const DRAIN_SHARE = 0.6;

/** A service that listens, and what its start has to say on the console. */
export interface Service {
  app: App;
  lines: readonly string[];
}

/**
 * Opens everything; each opened part is in `stages`, whatever happens later. Gives up between two
 * parts when `signal` aborts. Rejects when a part cannot be opened.
 */
export async function startService(config: Config, log: Log, stages: Stages, signal: AbortSignal): Promise<Service> {
  const app = await createApp(config, config.databaseUrl ?? (await openEmbedded(config, log, stages)), log);
  stages.add('broker and database', () => closeApp(app));
  if (isWorkerProcess()) app.metrics.collectSnapshots = connectWorker(() => app.metrics.snapshot());
  signal.throwIfAborted();
  await upgradeTenants(app, signal);
  await preparePartitions(app);
  const workers = [startRetention(app), startFieldCleanup(app), startRules(app)];
  stages.add('workers', () => Promise.all(workers.map((worker) => worker.stop())));
  const dispatcher = Dispatcher.start(app);
  stages.add('webhooks', () => dispatcher.stop());
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

/** Clears away what changes of fields have left that were cut off, in this process or another. */
function startFieldCleanup(app: App): Worker {
  return startWorker({
    name: 'field changes',
    once: () => cleanUpInterruptedTenants(app),
    pollMs: 60_000,
    log: app.log,
  });
}

/** A backup that holds the table is no reason not to start: events go to the default partition meanwhile. */
async function preparePartitions(app: App): Promise<void> {
  try {
    await ensurePartitions(app);
  } catch (error) {
    app.log.warn('the partitions of events could not be made yet; the worker tries again', { error });
  }
}

/** Loaded only where it is used: a real Postgres needs none of it. */
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

/** The server of an application whose parts are open; sets its address. */
export async function serveApp(app: App): Promise<Running> {
  const { config, log } = app;
  const answer = handlerOf(app, createApi(app));
  const running: Running = await serve({
    hostname: config.host,
    port: config.port,
    maxBody: BODY_CEILING_BYTES,
    idleSeconds: IDLE_SECONDS,
    reusePort: config.workers > 1,
    fetch: async (request, address) => {
      const response = await answer(request, address);
      if (isEventStream(response)) running.idle(request, streamIdleSeconds(config));
      return response;
    },
    report: (error) => log.error('the server reported an error', { cause: error }),
    socket: socketHandler(app),
  });
  app.address = addressOf(config.host, running.port);
  return running;
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true;
}

/** Heartbeats keep a stream's connection; one that takes none of several is cut off by the server. */
function streamIdleSeconds({ sse }: Config): number {
  return Math.max(30, Math.ceil((3 * sse.heartbeatMs) / 1_000));
}

/** No new connections; requests in flight are finished, or cut when they take too long. */
async function drain(running: Running, log: Log, graceMs: number): Promise<void> {
  const finished = new AbortController();
  const stopped = running.stop().finally(() => finished.abort());
  const cut = delay(graceMs, undefined, { signal: finished.signal }).then(
    async () => {
      log.warn('requests that did not end in time are cut off', { graceMs });
      await running.stop(true);
    },
    // The timer was called off: everything has ended.
    () => stopped,
  );
  await Promise.race([stopped, cut]);
}
