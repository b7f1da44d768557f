// What an event stream and a WebSocket have in common: their options, their events, and the ticket that opens one of them for
// credentials that cannot open it themselves.
// Contract: browsers#tickets.
import type { ChangeOptionsOf } from './changes.ts';
import type { Transport } from './transport.ts';

/** An event as both channels give it, before it has a type. */
export interface RawEvent {
  event: string;
  entity: string | null;
  record_id: string | null;
  data: object;
  cursor: string;
}

/** One connection. It ends or fails with the connection; `isOpen` is called when events start to arrive. */
export type Connect = (transport: Transport, wanted: ConnectOptions) => AsyncGenerator<RawEvent, void, undefined>;

export interface ConnectOptions extends Omit<ChangeOptionsOf<string>, 'since'> {
  /** The cursors to continue from, by entity; an event stream has one under the empty name. */
  cursors: Map<string, string>;
  silenceMs: number;
  onOpen: () => void;
}

/** A ticket for one connection, narrowed to the requested entities and events. */
export async function ticketFor(transport: Transport, { entities, events, signal }: ConnectOptions): Promise<string> {
  const tenant = await tenantOf(transport, signal);
  const body = { ...(entities && { entities }), ...(events && { events }) };
  const path = `/api/v1/tenants/${encodeURIComponent(tenant)}/events/tickets`;
  // Repeatable, because an unused ticket expires.
  const answer = await transport.request<{ ticket: string }>('POST', path, { body, signal, isRepeatable: true });
  return answer.data.ticket;
}

const tenants = new WeakMap<Transport, string>();

/** The slug of the client's tenant; by default the tenant of its credential. */
export async function tenantOf(transport: Transport, signal: AbortSignal | undefined): Promise<string> {
  const known = transport.options.tenant || tenants.get(transport);
  if (known !== undefined) return known;
  const whoami = await transport.request<{ tenant: { slug: string } | null }>('GET', '/api/auth/whoami', { signal });
  const slug = whoami.data.tenant?.slug;
  if (slug === undefined) throw new TypeError('the client needs a `tenant` with this credential');
  tenants.set(transport, slug);
  return slug;
}
