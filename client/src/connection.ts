// What an event stream and a WebSocket have in common: what they are asked for, the events that they give, and the ticket
// that opens one of them for credentials that do not open it themselves.
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

/** One connection. It ends, or fails, when the connection does; `isOpen` is called when it delivers. */
export type Connect = (transport: Transport, wanted: ConnectOptions) => AsyncGenerator<RawEvent, void, undefined>;

export interface ConnectOptions extends Omit<ChangeOptionsOf<string>, 'since'> {
  /** Where to go on, by entity; of an event stream under the empty name. */
  cursors: Map<string, string>;
  silenceMs: number;
  onOpen: () => void;
}

/** A ticket for one connection, narrowed to what is asked for. */
export async function ticketFor(transport: Transport, { entities, events, signal }: ConnectOptions): Promise<string> {
  const tenant = await tenantOf(transport, signal);
  const body = { ...(entities && { entities }), ...(events && { events }) };
  const path = `/api/v1/tenants/${encodeURIComponent(tenant)}/events/tickets`;
  // One that is not used expires: a ticket can be asked for again.
  const answer = await transport.request<{ ticket: string }>('POST', path, { body, signal, isRepeatable: true });
  return answer.data.ticket;
}

const tenants = new WeakMap<Transport, string>();

/** The slug of the client's tenant, or else of that of its credential. */
export async function tenantOf(transport: Transport, signal: AbortSignal | undefined): Promise<string> {
  const known = transport.options.tenant || tenants.get(transport);
  if (known !== undefined) return known;
  const whoami = await transport.request<{ tenant: { slug: string } | null }>('GET', '/api/auth/whoami', { signal });
  const slug = whoami.data.tenant?.slug;
  if (slug === undefined) throw new TypeError('the client needs a `tenant` with this credential');
  tenants.set(transport, slug);
  return slug;
}
