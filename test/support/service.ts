// The service for tests: the real application on a free port, on the stores of this test process or on a new embedded
// database. Clients speak HTTP, and each test uses a new tenant. With SERVICE_RUNTIME=deno the service is a process
// under Deno, with SERVICE_RUNTIME=bun one under Bun.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { type App, closeApp, createApp } from '../../src/app.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { openHub } from '../../src/events/hub.ts';
import { openRealtime } from '../../src/realtime/realtime.ts';
import { type Embedded, startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';
import { serveApp } from '../../src/service.ts';
import { Dispatcher } from '../../src/webhooks/dispatch/dispatcher.ts';
import { contractAt, forgetContract } from './contract.ts';
import { type RunningService, runtimeApart, startApart } from './service-apart.ts';
import { givenDatabaseUrl } from './stores.ts';

export const ADMIN_SECRET = 'admin-secret-of-the-tests';

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape
export type Json = any;

export interface Answer {
  status: number;
  headers: Headers;
  /** The parsed body, or its text if it is not JSON. */
  body: Json;
  text: string;
}

export interface Client {
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  put(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  patch(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  delete(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** The same client with further headers; null removes one. */
  with(headers: Record<string, string | null>): Client;
}

/** A new tenant and a client with its first owner key. */
export interface TestTenant extends Client {
  id: string;
  slug: string;
  key: string;
}

export interface TestService {
  app: App;
  url: string;
  databaseUrl: string;
  /** The lines of the service’s log, each one JSON object. */
  logged: string[];
  /** Without a credential. */
  anonymous: Client;
  /** With the super-admin secret. */
  admin: Client;
  tenant(input?: Record<string, unknown>): Promise<TestTenant>;
  /** Resolves when no mail is queued. */
  mailSettled(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the service; `environment` overrides configuration variables. */
export async function startService(environment: Record<string, string> = {}): Promise<TestService> {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-test-'));
  const variables = { ...stores(), DEMO: '0', DATA_DIR: dataDir, PORT: '0', ...SECRETS, ...environment };
  const config = readConfig(variables);
  const runtime = runtimeApart(process.env.SERVICE_RUNTIME);
  const running = runtime === undefined ? await startHere(config) : await startApart(runtime, variables, config);
  const url = running.app.address;
  const admin = clientOf(url, { 'x-admin-secret': ADMIN_SECRET });
  return {
    app: running.app,
    url,
    databaseUrl: running.databaseUrl,
    get logged() {
      return running.logged;
    },
    anonymous: clientOf(url, {}),
    admin,
    tenant: (input) => createTenant(url, input),
    mailSettled: running.mailSettled,
    stop: async () => {
      await running.stop();
      forgetContract(url);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Starts the service in this process. */
async function startHere(config: Config): Promise<RunningService> {
  const logged: string[] = [];
  const log = createLog({ level: config.logLevel, write: (line) => void logged.push(line), readable: false });
  const embedded = config.databaseUrl === null ? await startEmbedded(config.dataDir, log) : null;
  const databaseUrl = config.databaseUrl ?? (embedded as Embedded).url;
  const app = await createApp(config, databaseUrl, log);
  const dispatcher = Dispatcher.start(app);
  const hub = await openHub(app);
  const realtime = openRealtime(app);
  const server = await serveApp(app);
  app.isReady = true;
  const stop = async (): Promise<void> => {
    app.isReady = false;
    await realtime.close();
    await server.stop(true);
    await hub.close();
    await dispatcher.stop();
    await closeApp(app);
    await embedded?.stop();
  };
  return { app, databaseUrl, logged, mailSettled: () => app.mail.whenIdle(), stop };
}

export const SECRETS = { ADMIN_SECRET, JWT_SECRET: 'jwt-secret-of-the-tests' };

/** The stores that test files share, if any; they use different tenants. */
function stores(): Record<string, string> {
  const database = givenDatabaseUrl();
  const { REDIS_URL } = process.env;
  return { ...(database ? { DATABASE_URL: database } : {}), ...(REDIS_URL ? { REDIS_URL } : {}) };
}

let tenants = 0;

/** A new tenant of the service at an address, with a unique slug unless `input` names one. */
export async function createTenant(url: string, input: Record<string, unknown> = {}): Promise<TestTenant> {
  const admin = clientOf(url, { 'x-admin-secret': ADMIN_SECRET });
  tenants += 1;
  const slug = `t${process.pid.toString(36)}${Date.now().toString(36)}${tenants}`;
  const answer = await admin.post('/api/admin/platform/tenants', { slug, name: slug, ...input });
  if (answer.status !== 201) throw new Error(`no tenant: ${answer.text}`);
  const { id, apiKey } = answer.body.data;
  return { ...clientOf(url, { 'x-api-key': apiKey }), id, slug: answer.body.data.slug, key: apiKey };
}

/**
 * A client that sends `headers` with every request and compares every answer with the API document. Text, bytes and
 * streams are sent unchanged, other bodies as JSON.
 */
export function clientOf(url: string, headers: Record<string, string>): Client {
  const request = async (
    method: string,
    path: string,
    body?: unknown,
    further: Record<string, string> = {},
  ): Promise<Answer> => {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream;
    const response = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers, ...further },
      ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    const answer = { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : text };
    const check = await contractAt(url);
    check({ method, path, ...answer, ...(isRaw ? {} : { sent: body }) });
    return answer;
  };
  return {
    request,
    get: (path, further) => request('GET', path, undefined, further),
    post: (path, body, further) => request('POST', path, body, further),
    put: (path, body, further) => request('PUT', path, body, further),
    patch: (path, body, further) => request('PATCH', path, body, further),
    delete: (path, further) => request('DELETE', path, undefined, further),
    with: (further) => {
      const merged: Record<string, string | null> = { ...headers, ...further };
      const kept = Object.entries(merged).filter((entry): entry is [string, string] => entry[1] !== null);
      return clientOf(url, Object.fromEntries(kept));
    },
  };
}
