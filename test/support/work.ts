// Work in the test's own process as that of a tenant's client. Contract: neighbours#fair-shares.
import { countFor, forClient } from '../../src/runtime/work.ts';

/** Runs something as a call of a client of the tenant, which makes the tenant active. */
export function asTenant<T>(tenantId: string, run: () => Promise<T>): Promise<T> {
  return asClient(run, () => countFor(tenantId, false));
}

/** Runs something as an operator's call. */
export function asOperator<T>(run: () => Promise<T>): Promise<T> {
  return asClient(run, () => countFor(null, true));
}

function asClient<T>(run: () => Promise<T>, count: () => void): Promise<T> {
  const { signal } = new AbortController();
  return forClient(
    '192.0.2.1',
    () => signal,
    null,
    () => {
      count();
      return run();
    },
  );
}
