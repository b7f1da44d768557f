// What `tds doctor` finds: one sentence about the fault and one about its remedy, under a stable name, so that a program or a
// page of the documentation can refer to it.
// A check that cannot run states why, and is not a fault.
import type { Service } from '../service.ts';

/** Each check and the fault that it looks for. The documentation lists them. */
export const CHECKS = {
  address: 'the address cannot be reached: unknown host, wrong port, or a certificate that is not trusted',
  service: 'something else than this service answers at the address',
  ready: 'the service runs, but cannot serve: Postgres or Redis is away, or it starts or stops',
  encryption: 'credentials travel to another machine without TLS',
  clock: 'the clocks of this machine and of the service differ',
  version: 'this command line and the service are of different versions',
  credential: 'no credential, one that is refused, or one that soon ends',
  tenant: 'the tenant does not exist, is suspended, or is not that of the credential',
  'base-url': 'the service thinks that it has another address: BASE_URL behind a proxy',
  'event-stream': 'a proxy holds event streams back, or ends them',
  websocket: 'a proxy does not pass WebSockets on',
  'body-limit': 'a proxy refuses bodies that the service would take',
  origin: 'the pages of a site may not call the service (with --origin)',
  webhooks: 'webhook subscriptions fail, or have been disabled',
  receivers: 'a receiver has an address that the service may not call, such as one on this machine',
  quotas: 'the tenant has used most of a quota',
  schema: 'the schema of a tenant is damaged',
  configuration: 'environment variables are missing or malformed',
  misspelt: 'environment variables look like those of the service, and are none',
  secrets: 'ADMIN_SECRET or JWT_SECRET is short, well known, or both are the same',
  exposure: 'the service listens to the network with settings for one machine',
  ranges: 'WEBHOOK_ALLOWED_CIDRS lets every tenant call private addresses',
  mail: 'mail is written to files, because there is no mail server',
  'data-dir': 'DATA_DIR cannot be written, or others can read the secrets in it',
  disk: 'the disk of DATA_DIR is nearly full',
  postgres: 'Postgres cannot be reached, or refuses the connection',
  'postgres-version': 'Postgres is older than 15',
  pgvector: 'Postgres has no pgvector',
  connections: 'Postgres takes fewer connections than the processes open',
  migrations: 'the database waits for migrations, or is of a newer version',
  redis: 'Redis cannot be reached, or refuses the connection',
  'redis-version': 'Redis is older than 7',
  eviction: 'Redis may throw keys away while they are in use',
} as const;

export type CheckName = keyof typeof CHECKS;

export interface Finding {
  check: CheckName;
  /** A `note` is worth knowing; a `fault` keeps something from working. */
  state: 'ok' | 'note' | 'fault' | 'skipped';
  text: string;
  cure: string | null;
}

export const ok = (check: CheckName, text: string): Finding => ({ check, state: 'ok', text, cure: null });
export const note = (check: CheckName, text: string, cure: string): Finding => ({ check, state: 'note', text, cure });
export const fault = (check: CheckName, text: string, cure: string): Finding => ({ check, state: 'fault', text, cure });
export const skipped = (check: CheckName, text: string): Finding => ({ check, state: 'skipped', text, cure: null });

/** The input of the checks over the network. */
export interface CheckContext {
  service: Service;
  /** An origin of pages that should be able to call the service. */
  origin: string | undefined;
  version: string;
}

/** How long one request of a check may take. */
export const LOOK_MS = 5_000;

/** Requests a path without a credential; resolves to any response, even from a proxy. */
export function look(service: Service, path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(service.target.url + path, { redirect: 'manual', signal: within(service), ...init });
}

export function within(service: Service, ms = LOOK_MS): AbortSignal {
  return AbortSignal.any([service.signal, AbortSignal.timeout(ms)]);
}
