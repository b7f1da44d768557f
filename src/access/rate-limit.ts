// Rate limits: fixed windows that start with the first request in them, counted by the broker, so
// that they hold across all processes. Every answer says what is left; past a limit 429. With Redis
// away a limit cannot be kept, and the request is refused with 503.
// Contract: interface#limits, decisions#keys, decisions#lockout.
import type { App } from '../app.ts';
import { rateLimited } from '../errors.ts';
import type { Caller } from './caller.ts';
import { addResponseHeaders } from './request-context.ts';

/** One limit: so many requests in so many seconds, counted under a key. `name` stands in the headers. */
export interface RateWindow {
  name: string;
  key: string;
  quota: number;
  windowS: number;
}

interface Spent extends RateWindow {
  /** Requests left (below 0 for one too many), and whole seconds until all are back. */
  left: number;
  resetS: number;
}

const MINUTE_S = 60;
const DAY_S = 86_400;

/** The limits that hold for a caller: a public key's own, and the general one where it is on. */
export function rateWindowsOf(app: App, caller: Caller): RateWindow[] {
  const { rateLimitPerMin } = app.config;
  const id = `${caller.kind}:${caller.id ?? ''}`;
  const windows: RateWindow[] = [];
  if (rateLimitPerMin > 0) {
    windows.push({ name: 'general', key: `general:${id}`, quota: rateLimitPerMin, windowS: MINUTE_S });
  }
  if (caller.publicKey !== undefined) {
    const { perMinute, perDay } = caller.publicKey;
    windows.push({ name: 'permin', key: `minute:${id}`, quota: perMinute, windowS: MINUTE_S });
    windows.push({ name: 'perday', key: `day:${id}`, quota: perDay, windowS: DAY_S });
  }
  return windows;
}

/**
 * Counts a request in each window and notes the headers of its answer. 429 at the first window that is used up;
 * the ones after it are left alone, so that what a minute refuses is not taken from the day.
 */
export async function countRequest(app: App, request: Request, windows: readonly RateWindow[]): Promise<void> {
  if (windows.length === 0) return;
  const quotas = windows.map(({ key, quota, windowS }) => ({ key: `rate:${key}`, quota, windowMs: windowS * 1_000 }));
  const hits = await app.broker.countAll(quotas);
  const spent = hits.map(({ count, resetMs }, i): Spent => {
    const window = windows[i] as RateWindow;
    return { ...window, left: window.quota - count, resetS: Math.max(1, Math.ceil(resetMs / 1_000)) };
  });
  addResponseHeaders(request, rateHeaders(windows, spent));
  const usedUp = spent.find(({ left }) => left < 0);
  if (usedUp !== undefined) throw rateLimited('too many requests', usedUp.resetS);
}

/** The standard's two fields for all windows, and the customary three for the one with the least left. */
function rateHeaders(windows: readonly RateWindow[], spent: readonly Spent[]): Record<string, string> {
  const tightest = spent.reduce((least, window) => (window.left < least.left ? window : least));
  return {
    'ratelimit-policy': windows.map(({ name, quota, windowS }) => `"${name}";q=${quota};w=${windowS}`).join(', '),
    ratelimit: spent.map(({ name, left, resetS }) => `"${name}";r=${Math.max(0, left)};t=${resetS}`).join(', '),
    'x-ratelimit-limit': String(tightest.quota),
    'x-ratelimit-remaining': String(Math.max(0, tightest.left)),
    'x-ratelimit-reset': String(Math.ceil(Date.now() / 1_000) + tightest.resetS),
  };
}
