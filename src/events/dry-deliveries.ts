// Counts the deliveries that the changes of a dry run would make. The webhooks count the deliveries of subscriptions that judge
// changes first, since only they can judge.
// Contract: trying#dry-runs.
import { type App, perApp } from '../app.ts';
import type { EntityChange } from './entity-change.ts';
import type { RecordRow } from './event.ts';

type CountJudged = (app: App, tenantId: string, change: EntityChange, rows: readonly RecordRow[]) => Promise<number>;

/** The function that counts the deliveries of subscriptions that judge changes. */
export const countJudgedOf = perApp<CountJudged>(() => async () => 0);

export async function countDeliveries(
  app: App,
  tenantId: string,
  change: EntityChange,
  rows: readonly RecordRow[],
): Promise<number> {
  const { entity, type } = change;
  const subscribed = entity.subscribed[type] ?? [];
  const plain = rows.length * subscribed.filter((id) => id !== entity.id).length;
  return subscribed.includes(entity.id) ? plain + (await countJudgedOf(app)(app, tenantId, change, rows)) : plain;
}
