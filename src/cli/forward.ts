// Sends changes of the feed to a receiver as the service sends webhooks: the same body, the same headers, the same signatures.
// For a deleted record the feed shows only the id, but a webhook shows the last values; they are read from the deleted records.
// Durations in ms; failures of the receiver are results, not exceptions.
import { randomUUID } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { Connections } from '../webhooks/transport/connections.ts';
import { post } from '../webhooks/transport/http-post.ts';
import { requestHeaders } from '../webhooks/transport/request-headers.ts';
import { recordsPath } from './entity.ts';
import type { Change } from './follow.ts';
import { reasonOf } from './reasons.ts';
import type { Service } from './service.ts';

export interface ForwardResult {
  status: number | null;
  /** Null if the receiver accepted it. */
  error: string | null;
  durationMs: number;
}

/** The time within which a webhook receiver must answer. */
const TIMEOUT_MS = 30_000;

export class Forwarder {
  readonly #connections = new Connections();

  constructor(
    private readonly service: Service,
    private readonly url: URL,
    private readonly secret: string,
    private readonly tenantId: string,
  ) {}

  async send(change: Change): Promise<ForwardResult> {
    const body = JSON.stringify(await this.#bodyOf(change));
    const headers = requestHeaders({
      deliveryId: randomUUID(),
      eventId: change.id.replace(/^evt_/, ''),
      type: change.event,
      number: 1,
      body,
      secrets: [this.secret],
      isTest: false,
    });
    const startedAt = performance.now();
    const { status, error } = await this.#post(headers, body);
    return { status, error, durationMs: Math.round(performance.now() - startedAt) };
  }

  async #bodyOf(change: Change): Promise<object> {
    const { id, event, entity, record_id: recordId, at } = change;
    const { erased } = change as { erased?: object };
    return {
      id,
      event,
      entity,
      record_id: `rec_${recordId}`,
      data: event === 'record.deleted' && erased === undefined ? await this.#lastValues(change) : change.data,
      timestamp: at,
      tenant_id: `tenant_${this.tenantId}`,
      ...(erased === undefined ? {} : { erased }),
    };
  }

  /** The last values of a deleted record; only the id if they are no longer kept, or the record has been restored. */
  async #lastValues({ entity, record_id: id, data }: Change): Promise<Record<string, unknown>> {
    const page = await this.service.get<{ items: Record<string, unknown>[] }>(`${recordsPath(entity ?? '')}/deleted`, {
      filters: `id = "${id}"`,
      limit: 1,
      count: 'none',
    });
    const { deletedAt, deletedBy, ...values } = page.items[0] ?? (data as Record<string, unknown>);
    return values;
  }

  async #post(headers: Record<string, string>, body: string): Promise<{ status: number | null; error: string | null }> {
    const { hostname } = this.url;
    try {
      const addresses = await lookup(hostname.replace(/^\[|\]$/g, ''), { all: true });
      const sender = { tenantId: this.tenantId, subscriptionId: '' };
      return await post(this.#connections, sender, { url: this.url, addresses }, headers, body, TIMEOUT_MS);
    } catch (error) {
      return { status: null, error: reasonOf(error) };
    }
  }
}
