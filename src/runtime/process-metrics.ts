// The process and its connections to Postgres in numbers. Sizes are bytes, times are seconds, as
// Prometheus wants them. Nothing here fails.
// Contract: decisions#metrics.
import process from 'node:process';
import type { Metrics } from './metrics.ts';
import type { Database } from './postgres.ts';

/** Adds them to what the process measures; they are read when they are asked for. */
export function processMetrics(metrics: Metrics, db: Pick<Database, 'stats'>): void {
  const startedAt = Date.now() / 1_000 - process.uptime();
  metrics.gauge('svc_db_pool_size', 'Connections to Postgres for requests.', () => db.stats().size);
  metrics.gauge('svc_db_pool_in_use', 'Connections to Postgres that requests hold.', () => db.stats().inUse);
  metrics.gauge('svc_db_pool_waiting', 'Calls that wait for a connection to Postgres.', () => db.stats().waiting);
  metrics.gauge('process_start_time_seconds', 'Start of the process, in Unix time.', () => startedAt);
  metrics.gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage().rss);
  metrics.gauge('process_heap_bytes', 'Memory of the JavaScript heap in use.', () => process.memoryUsage().heapUsed);
  metrics.readCounter('process_cpu_seconds_total', 'Processor time, user and system.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
}
