// Measures how late timers fire: how long a synchronous step makes everything else wait. Uses a timer, because
// `monitorEventLoopDelay` of node:perf_hooks misses whole stalls on Deno. Takes one sample every 20 ms; a stall is one sample of
// its full length. Costs about 0.1 % of a processor.
// Contract: neighbours#who-does-what.
import { Histogram } from 'prom-client';
import type { Metrics } from './metrics.ts';

const EVERY_MS = 20;
const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Measures until the returned function is called. */
export function measureEventLoopDelay({ registry }: Metrics): () => void {
  const histogram = new Histogram({
    name: 'svc_event_loop_delay_seconds',
    help: 'How late timers fire.',
    buckets: BUCKETS_S,
    registers: [registry],
  });
  let expectedAt = performance.now() + EVERY_MS;
  const timer = setInterval(() => {
    const now = performance.now();
    histogram.observe(Math.max(0, now - expectedAt) / 1_000);
    expectedAt = now + EVERY_MS;
  }, EVERY_MS);
  timer.unref?.();
  return () => clearInterval(timer);
}
