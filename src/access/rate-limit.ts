// Rate limits: fixed windows that start with the first request in them, counted in the broker, so that they
// hold across processes. Every response states the remaining quota, in the headers of
// draft-ietf-httpapi-ratelimit-headers. Failures: 429 over a limit, 503 while Redis is unavailable.
// Contract: interface#limits, decisions#keys.
import type { App } from '../app.ts';
import { quotaExceeded, rateLimited } from '../errors.ts';
import { noticeUse } from '../usage/near-quota.ts';
import { type Caller, credentialOf } from './caller.ts';
import { propertiesOf } from './credential-kinds.ts';
import { addResponseHeaders } from './request-context.ts';

/** A quota of requests per window, counted under a key. `name` appears in the headers. */
export interface RateWindow {
  name: string;
  key: string;
  quota: number;
  windowS: number;
  /** The tenant whose quota of requests this is. */
  tenantId?: string;
}

interface Usage extends RateWindow {
  /** Requests left, negative over the limit, and whole seconds until the window resets. */
  left: number;
  resetS: number;
}

const MINUTE_S = 60;
const DAY_S = 86_400;

/** The quota of requests that the caller shares with all of its tenant; operators have none. */
export function requestQuotaOf({ kind, tenant }: Caller): number | undefined {
  return propertiesOf(kind).tenant === 'bound' ? tenant?.quotas.requestsPerMin : undefined;
}

/** The limits of a caller: the general one, if configured, a public key's own, and the quota of its tenant. */
export function rateWindowsOf(app: App, caller: Caller): RateWindow[] {
  const { rateLimitPerMin } = app.config;
  const id = credentialOf(caller);
  const windows: RateWindow[] = [];
  if (rateLimitPerMin > 0) {
    windows.push({ name: 'general', key: `general:${id}`, quota: rateLimitPerMin, windowS: MINUTE_S });
  }
  if (caller.publicKey !== undefined) {
    const { perMinute, perDay } = caller.publicKey;
    windows.push({ name: 'permin', key: `minute:${id}`, quota: perMinute, windowS: MINUTE_S });
    windows.push({ name: 'perday', key: `day:${id}`, quota: perDay, windowS: DAY_S });
  }
  const tenantQuota = requestQuotaOf(caller);
  if (tenantQuota !== undefined && caller.tenant !== null) {
    const { id: tenantId } = caller.tenant;
    windows.push({ name: 'tenant', key: `tenant:${tenantId}`, quota: tenantQuota, windowS: MINUTE_S, tenantId });
  }
  return windows;
}

/**
 * Counts a request in each window and adds the response headers. 429 at the first window over its limit; later
 * windows are not counted, so that a request denied by the minute's limit does not use up the day's.
 */
export async function countRequest(app: App, request: Request, windows: readonly RateWindow[]): Promise<void> {
  if (windows.length === 0) return;
  const quotas = windows.map(({ key, quota, windowS }) => ({ key: `rate:${key}`, quota, windowMs: windowS * 1_000 }));
  const hits = await app.broker.countAll(quotas);
  const usage = hits.map(({ count, resetMs }, i): Usage => {
    const window = windows[i] as RateWindow;
    return { ...window, left: window.quota - count, resetS: Math.max(1, Math.ceil(resetMs / 1_000)) };
  });
  addResponseHeaders(request, rateHeaders(windows, usage));
  const exceeded = usage.find(({ left }) => left < 0);
  for (const { tenantId, quota, left } of usage) {
    if (tenantId !== undefined) noticeUse(app, tenantId, 'requestsPerMin', quota, Math.min(quota, quota - left));
  }
  if (exceeded === undefined) return;
  const { tenantId, quota, resetS } = exceeded;
  if (tenantId === undefined) throw rateLimited('too many requests', resetS);
  throw quotaExceeded({ quota: 'requestsPerMin', limit: quota, used: quota }, resetS);
}

/**
 * The two standard headers for all windows, and the three `X-RateLimit` headers for the window with the fewest requests
 * left. `usage` lacks the windows that were not counted.
 */
function rateHeaders(windows: readonly RateWindow[], usage: readonly Usage[]): Record<string, string> {
  const tightest = usage.reduce((least, window) => (window.left < least.left ? window : least));
  return {
    'ratelimit-policy': windows.map(({ name, quota, windowS }) => `"${name}";q=${quota};w=${windowS}`).join(', '),
    ratelimit: usage.map(({ name, left, resetS }) => `"${name}";r=${Math.max(0, left)};t=${resetS}`).join(', '),
    'x-ratelimit-limit': String(tightest.quota),
    'x-ratelimit-remaining': String(Math.max(0, tightest.left)),
    'x-ratelimit-reset': String(Math.ceil(Date.now() / 1_000) + tightest.resetS),
  };
}
