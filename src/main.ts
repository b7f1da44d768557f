// The entry point: configuration, one serving process or several, signals, exit codes.
// The first SIGTERM or SIGINT stops in stages, even during the start; the second exits immediately.
// Exit codes: 0 after a clean stop, 1 when the service cannot start, fails, or exceeds the shutdown timeout.
import process from 'node:process';
import { type Config, ConfigError, readConfig, readEnvironment, withGeneratedSecrets } from './config.ts';
import { createLog, type Log } from './runtime/log.ts';
import { Stages } from './runtime/stages.ts';
import { unknownVariables } from './runtime/unknown-variables.ts';
import { setNiceness } from './serve/priority.ts';
import { isWorkerProcess, onSupervisorGone, superviseProcesses } from './serve/supervisor.ts';

async function main(): Promise<number> {
  const environment = readEnvironment();
  const config = withGeneratedSecrets(readConfig(environment));
  const log = createLog({ level: config.logLevel });
  if (!isWorkerProcess()) for (const unknown of unknownVariables(environment)) log.warn(unknown);
  exitOnUnhandledRejection(log);
  const stopping = stopOnSignal(config, log);
  if (config.workers > 1 && !isWorkerProcess()) return superviseProcesses(config, log, stopping);
  return serveUntil(stopping, config, log);
}

/** Serves until the signal aborts; resolves to the exit code. */
async function serveUntil(stopping: AbortSignal, config: Config, log: Log): Promise<number> {
  const stages = new Stages();
  preferThisThread(config, log);
  try {
    // The supervisor of several processes never loads the application.
    const { startService } = await import('./service.ts');
    const { app, lines } = await startService(config, log, stages, stopping);
    console.log([`listening on ${app.address}`, ...lines].join('\n'));
    await aborted(stopping);
  } catch (error) {
    if (!stopping.aborted) {
      await stages.close(log);
      throw error;
    }
    log.info('start cancelled');
  }
  return (await stages.close(log)) ? 0 : 1;
}

/**
 * All tenants wait for the thread of the event loop, so it goes before the statements of a PostgreSQL on the same machine: with 8
 * attacks at once, the p99 of requests beside them was 53 to 112 ms instead of 138 to 326. Only the superuser may have a negative
 * niceness.
 */
function preferThisThread({ niceness }: Config, log: Log): void {
  try {
    setNiceness(niceness);
  } catch (error) {
    log.debug('the priority is not raised, or not fully', { niceness, error });
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

/** A second signal exits immediately, except in a worker: it may get both a signal and its supervisor's stop, which count as one. */
function stopOnSignal(config: Config, log: Log): AbortSignal {
  const stopping = new AbortController();
  const stop = (reason: string): void => {
    if (stopping.signal.aborted) {
      if (isWorkerProcess()) return;
      log.warn('second signal: exiting immediately');
      process.exit(1);
    }
    log.info('shutting down', { reason });
    setTimeout(() => {
      log.error('shutdown timeout exceeded: exiting', { limitMs: config.shutdownTimeoutMs });
      process.exit(1);
    }, config.shutdownTimeoutMs).unref();
    stopping.abort();
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  onSupervisorGone(() => stop('supervisor'));
  return stopping.signal;
}

/** An unhandled rejection leaves the process in an unknown state. (postgres.ts handles one harmless case itself.) */
function exitOnUnhandledRejection(log: Log): void {
  process.on('unhandledRejection', (error: unknown) => {
    log.error('unhandled rejection', { error });
    process.exit(1);
  });
}

// Keeps the process alive until `main` ends: waiting for an unreachable database does not.
setInterval(() => undefined, 60_000);

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    console.error(error instanceof ConfigError ? message : `the service cannot start: ${message}`);
    process.exit(1);
  },
);
