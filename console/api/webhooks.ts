// Webhook subscriptions and their deliveries as the API answers them, for the pages that show them.
import { queryOptions } from '@tanstack/react-query';
import { get } from './call.ts';
import { keyOf, queryClient } from './queries.ts';

export const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
export const EVENT_TYPES = ['record.created', 'record.updated', 'record.deleted'] as const;
export const INCLUDES = ['previous', 'cursor'] as const;
/** The name of all entities. */
export const ALL_ENTITIES = '*';

export type State = 'ok' | 'failing' | 'disabled' | 'quota_exceeded';

export interface Subscription {
  id: string;
  entity_name: string;
  event_types: string[];
  url: string;
  description: string | null;
  is_active: boolean;
  has_secret: boolean;
  role?: string;
  filters?: string;
  fields?: string[];
  include?: string[];
  secret_previous_until?: string;
  disabled_reason?: string | null;
  health: { state: State };
  created_at: string;
  updated_at: string;
}

export interface Health {
  state: State;
  lastSuccessAt: string | null;
  lastFailureAt: string | null;
  lastError: string | null;
  pending: number;
  failed24h: number;
  behindSeconds: number;
}

export interface SubscriptionDetail extends Subscription {
  health: Health;
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

export interface Attempt {
  at: string;
  durationMs: number;
  http_status: number | null;
  error: string | null;
  responseText: string | null;
}

export interface DeliveryDetail extends Delivery {
  /** Null before the first attempt has ended. */
  body: string | null;
  attempts: Attempt[];
}

export const subscriptionsQuery = (tenant: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions'),
    queryFn: ({ signal }) => get<Subscription[]>(SUBSCRIPTIONS, { tenant, signal }),
  });

/** How often what is on the screen is read again while a delivery is under way, and otherwise. */
const BUSY_MS = 1_000;
const CALM_MS = 10_000;
/** So long after an act of the person, which a delivery follows soon. */
const AWAITED_MS = 15_000;
const awaited = new Map<string, number>();

const isAwaited = (id: string): boolean => (awaited.get(id) ?? 0) > Date.now();

/** Reads a subscription and its deliveries again, and often for a while. */
export async function awaitDeliveries(tenant: string, id: string): Promise<void> {
  awaited.set(id, Date.now() + AWAITED_MS);
  await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions', id) });
}

/** One with its health. */
export const subscriptionQuery = (tenant: string, id: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions', id),
    // The page is still shown for a moment when it has been left.
    enabled: id !== '',
    queryFn: ({ signal }) => get<SubscriptionDetail>(`${SUBSCRIPTIONS}/${id}`, { tenant, signal }),
    refetchInterval: () => (isAwaited(id) ? BUSY_MS : CALM_MS),
  });

export interface Shown {
  status?: string;
  event?: string;
  /** The id of a delivery: only older ones. */
  before?: string;
}

export const deliveriesQuery = (tenant: string, id: string, limit: number, shown: Shown = {}) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions', id, 'deliveries', limit, JSON.stringify(shown)),
    queryFn: ({ signal }) =>
      get<Delivery[]>(`${SUBSCRIPTIONS}/${id}/deliveries`, { tenant, signal, query: { limit, ...shown } }),
    refetchInterval: ({ state }) => (isAwaited(id) || state.data?.some(isUnderWay) ? BUSY_MS : CALM_MS),
  });

export const deliveryQuery = (tenant: string, subscription: string, id: string) =>
  queryOptions({
    queryKey: keyOf(tenant, 'subscriptions', subscription, 'delivery', id),
    queryFn: ({ signal }) => get<DeliveryDetail>(`/api/webhooks/deliveries/${id}`, { tenant, signal }),
    refetchInterval: ({ state }) =>
      isAwaited(subscription) || (state.data !== undefined && isUnderWay(state.data)) ? BUSY_MS : CALM_MS,
  });

/** Whether an attempt is due or in flight, so that the next reading may show another state. */
function isUnderWay({ status, attempt_count: attempts, next_attempt_at: next }: Delivery): boolean {
  return status === 'pending' && (attempts === 0 || next === null || Date.parse(next) - Date.now() < 10_000);
}

/** Whether the last attempt of a delivery did not succeed. */
export const isFailing = ({ status, attempt_count: attempts, error, http_status: code }: Delivery): boolean =>
  status === 'failed' || (status === 'pending' && attempts > 0 && (error !== null || code !== null));

/** What the receiver said last: "500", "timeout". */
export function answerOf({ http_status: code, error }: Pick<Delivery, 'http_status' | 'error'>): string {
  const isSame = error === `status ${code}`;
  return [code, isSame ? null : error].filter((part) => part !== null).join(' ') || 'nothing yet';
}

/** What a subscription sends, in words: "created, updated of all entities, as partner sees them". */
export function sentBy({ event_types: types, entity_name: entity, role }: Subscription): string {
  const events = types.map((type) => type.replace('record.', '')).join(', ');
  const seen = role === undefined ? '' : `, as ${role} sees them`;
  return `${events} of ${entity === ALL_ENTITIES ? 'all entities' : entity}${seen}`;
}

const SECRET_BYTES = 32;

/** As Standard Webhooks writes it. */
export function newSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(SECRET_BYTES))))}`;
}
