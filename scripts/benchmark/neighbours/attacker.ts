// A hostile tenant of the rows about neighbours: its credentials, and loops that send requests until the attack ends.
// Refusals count as responses: an attack is harmless when it is refused.
// Times are milliseconds.

import { Api } from '../api.ts';
import { createTenant } from '../service.ts';

export interface Host {
  port: number;
  adminSecret: string;
}

/** Statuses of the responses to an attack, with their count; 0 for a broken connection. */
export type Statuses = Map<number, number>;

export class Attacker {
  readonly api: Api;
  readonly statuses: Statuses = new Map();
  readonly #made = new Map<string, Promise<unknown>>();
  readonly #others: Attacker[] = [];

  private constructor(
    readonly host: Host,
    readonly slug: string,
    readonly key: string,
  ) {
    this.api = new Api(host.port, { key });
  }

  static async make(host: Host, slug: string): Promise<Attacker> {
    return new Attacker(host, slug, await createTenant(host.port, host.adminSecret, slug));
  }

  /** Further tenants that attack with this one, and are removed with it. */
  async others(count: number): Promise<readonly Attacker[]> {
    for (let at = this.#others.length; at < count; at++) {
      this.#others.push(await Attacker.make(this.host, `${this.slug}-${at}`));
    }
    return this.#others;
  }

  async remove(): Promise<void> {
    for (const other of this.#others) await other.remove();
    const admin = new Api(this.host.port, { adminSecret: this.host.adminSecret });
    await admin.call('DELETE', `/api/admin/platform/tenants/${this.slug}?confirm=${this.slug}`);
  }

  /** Makes something once, for all attacks of this tenant. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const made = (this.#made.get(name) ?? make()) as Promise<T>;
    this.#made.set(name, made);
    return made;
  }

  /** Creates an entity with the given fields, once. */
  async entity(name: string, fields: readonly Record<string, unknown>[]): Promise<void> {
    await this.once(name, () => this.api.call('POST', '/api/entities', { name, fields }));
  }

  /** A key whose role has one right on one entity. */
  async roleKey(entity: string, right: 'create' | 'read'): Promise<string> {
    const role = 'limited';
    await this.api.call('POST', '/api/roles', { name: role, permissions: { [entity]: [right] } });
    const access = { name: 'Limited', slug: role, roles: [role], permissions: { [entity]: { [role]: [right] } } };
    const { id } = await this.api.call<{ id: string }>('POST', '/api/apis', access);
    const request = { role, label: role, ttlDays: 1 };
    return (await this.api.call<{ key: string }>('POST', `/api/apis/${id}/keys`, request)).key;
  }

  /** Tries a definition that a service with limits refuses; resolves to whether it was accepted. */
  async tryCall(method: string, path: string, body: unknown): Promise<boolean> {
    return this.api.call(method, path, body).then(
      () => true,
      () => false,
    );
  }

  /** Sends requests in `lanes` loops until the signal aborts. */
  async flood(signal: AbortSignal, lanes: number, request: (at: number) => Sent): Promise<void> {
    let next = 0;
    const lane = async () => {
      while (!signal.aborted) await this.send(request(next++), signal);
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  /** Sends one request and reads the response to its end. */
  async send({ method = 'GET', path, body, type = 'application/json', ...sent }: Sent, signal: AbortSignal) {
    const { key = this.key, headers = { authorization: `Bearer ${key}` }, goneAfterMs } = sent;
    const signals = goneAfterMs === undefined ? [signal] : [signal, AbortSignal.timeout(goneAfterMs)];
    try {
      const answer = await fetch(`http://127.0.0.1:${this.host.port}${path}`, {
        method,
        headers: { ...headers, 'content-type': type },
        signal: AbortSignal.any(signals),
        ...(body === undefined ? {} : { body }),
      });
      this.#count(answer.status);
      for await (const _ of answer.body ?? []);
    } catch {
      this.#count(0);
      await Bun.sleep(1);
    }
  }

  #count(status: number): void {
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
  }
}

export interface Sent {
  method?: string;
  path: string;
  body?: string;
  type?: string;
  key?: string;
  /** In place of the credential. */
  headers?: Record<string, string>;
  /** The client disconnects after this time. */
  goneAfterMs?: number;
}
