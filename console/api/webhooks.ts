// Webhook subscriptions and their deliveries as the API answers them, for the two pages that show them.
import { queryOptions } from '@tanstack/react-query';
import { get } from './call.ts';
import { keyOf, queryClient } from './queries.ts';

export const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
export const EVENT_TYPES = ['record.created', 'record.updated', 'record.deleted'] as const;

export interface Subscription {
  id: string;
  entity_name: string;
  event_types: string[];
  url: string;
  description: string | null;
  is_active: boolean;
  has_secret: boolean;
  health: { state: string };
  created_at: string;
  updated_at: string;
}

export interface Delivery {
  id: string;
  event_id: string;
  event: string;
  status: 'pending' | 'delivered' | 'failed';
  http_status: number | null;
  attempt_count: number;
  error: string | null;
  created_at: string;
  next_attempt_at: string | null;
  completed_at: string | null;
}

export const subscriptionsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions'),
    queryFn: ({ signal }) => get<Subscription[]>(SUBSCRIPTIONS, { tenant, signal }),
  });

/** How often the deliveries on the screen are read again while one is under way, and otherwise. */
const BUSY_MS = 1_000;
const CALM_MS = 10_000;
/** So long after an act of the person, which a delivery follows soon. */
const AWAITED_MS = 15_000;
const awaited = new Map<string, number>();

/** Reads the deliveries of a subscription again, and often for a while. */
export async function awaitDeliveries(tenant: string, id: string): Promise<void> {
  awaited.set(id, Date.now() + AWAITED_MS);
  await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions', id) });
}

export const deliveriesQuery = (tenant: string, id: string, limit: number) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions', id, 'deliveries', limit),
    queryFn: ({ signal }) => get<Delivery[]>(`${SUBSCRIPTIONS}/${id}/deliveries`, { tenant, signal, query: { limit } }),
    refetchInterval: ({ state }) =>
      (awaited.get(id) ?? 0) > Date.now() || state.data?.some(isUnderWay) ? BUSY_MS : CALM_MS,
  });

/** Whether an attempt is due or in flight, so that the next reading may show another state. */
function isUnderWay({ status, attempt_count: attempts, next_attempt_at: next }: Delivery): boolean {
  return status === 'pending' && (attempts === 0 || next === null || Date.parse(next) - Date.now() < 10_000);
}

/** Whether the last attempt of a delivery did not succeed. */
export const isFailing = ({ status, attempt_count: attempts, error, http_status: code }: Delivery): boolean =>
  status === 'failed' || (status === 'pending' && attempts > 0 && (error !== null || code !== null));

/** What the receiver said last: "500", "timeout". */
export function answerOf({ http_status: code, error }: Delivery): string {
  const isSame = error === `status ${code}`;
  return [code, isSame ? null : error].filter((part) => part !== null).join(' ') || 'nothing yet';
}

export type State = 'failing' | 'quota' | 'off' | 'ok' | 'idle';

/** The state of a subscription by its newest attempted delivery; the API's `health` knows only of quotas. */
export function stateOf(
  { is_active: isActive, health }: Subscription,
  deliveries: readonly Delivery[] | undefined,
): State {
  if (!isActive) return 'off';
  const last = deliveries?.find(({ attempt_count: attempts, status }) => attempts > 0 || status !== 'pending');
  if (last !== undefined && isFailing(last)) return 'failing';
  if (health.state === 'quota_exceeded') return 'quota';
  return last === undefined ? 'idle' : 'ok';
}
