// Counts what the service refuses, by a closed set of reasons: the error codes, and the limits on connections. An internal error is a
// failure, not a refusal.
// Contract: neighbours#who-does-what.
import { Counter } from 'prom-client';
import { type ErrorCode, STATUS_BY_CODE } from '../errors.ts';
import type { Metrics } from './metrics.ts';

type Reason = ErrorCode | 'CONNECTION_LIMIT' | 'SLOW_READER';

export class Refusals {
  readonly #counter: Counter<'reason'>;

  constructor({ registry }: Metrics) {
    const help = 'Requests, connections and changes refused, by the error code or limit.';
    this.#counter = new Counter({ name: 'svc_refused_total', help, labelNames: ['reason'], registers: [registry] });
    const codes = Object.keys(STATUS_BY_CODE) as ErrorCode[];
    for (const reason of [...codes, 'CONNECTION_LIMIT', 'SLOW_READER'] as const) this.#add(reason, 0);
  }

  count(reason: Reason): void {
    this.#add(reason, 1);
  }

  #add(reason: Reason, count: number): void {
    if (reason !== 'INTERNAL_ERROR') this.#counter.inc({ reason: reason.toLowerCase() }, count);
  }
}
