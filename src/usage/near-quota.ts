// Notices that a tenant has used most of a quota. This process announces each quota once a day; the announcing function
// (quota-warnings.ts of the events) ensures that only one process does.
// Contract: neighbours#usage-and-quotas.
import { type App, perApp } from '../app.ts';
import type { QuotaUse } from '../errors.ts';
import { detached } from '../runtime/work.ts';
import type { Quota } from '../tenants/tenants.ts';
import { utcDay } from './usage-writer.ts';

/** The part of a quota from which its use is announced. */
export const NEAR = 0.8;
const REMEMBERED_MAX = 10_000;

export type Announce = (tenantId: string, day: string, use: QuotaUse) => Promise<void>;

const announceOf = perApp<Announce>(() => async () => undefined);
const announcedOf = perApp(() => new Set<string>());

/** Sets the function that announces the use of quotas. */
export function onNearQuota(app: App, announce: Announce): void {
  announceOf.set(app, announce);
}

/** Announces the use of a quota from 80 % on, without waiting for it. */
export function noticeUse(app: App, tenantId: string, quota: Quota, limit: number, used: number): void {
  if (used === 0 || used < limit * NEAR) return;
  const day = utcDay(Date.now());
  const announced = announcedOf(app);
  const name = `${tenantId} ${quota} ${day}`;
  if (announced.has(name)) return;
  if (announced.size >= REMEMBERED_MAX) announced.clear();
  announced.add(name);
  detached(() => {
    announceOf(app)(tenantId, day, { quota, limit, used }).catch((error: unknown) => {
      announced.delete(name);
      app.log.warn('a quota warning could not be sent', { quota, error });
    });
  });
}
