// The client, in a worker thread of its own, so that its work does not count as a stall of the service. It sends a share
// of the requests, and reports each finding: a 5xx, a response that the document does not allow, a secret that the caller
// may not see, no response in time. Times are milliseconds.
import { parentPort } from 'node:worker_threads';
import { newAddress } from '../../test/support/addresses.ts';
import { contractCheck } from '../../test/support/contract.ts';
import { disagreements } from './agreement.ts';
import { deadline, failureIn, isInternal, rpcResult } from './answers.ts';
import { fuzzSocket, readStream, toolCall } from './channels.ts';
import { type Successes, templates } from './coverage.ts';
import type { Schema } from './json.ts';
import { Names } from './names.ts';
import { Random } from './random.ts';
import { type FuzzRequest, type Operation, operationsOf, requestFor } from './requests.ts';
import { type RoundTenant, SECRETS_BY_KIND } from './tenant.ts';

/** What the client is told to do. */
export interface Round extends RoundTenant {
  url: string;
  document: Schema;
  seed: number;
  requests: number;
  /** The other tenant's secret, which no caller may see. */
  canary: string;
}

/** What the client saw. */
export interface RoundReport {
  statuses: Record<string, number>;
  /** Pairs of a kind and an operation that it may call. */
  allowed: string[];
  successes: Successes;
  /** How often each reason for a refusal was given, by operation. */
  refusals: Record<string, Record<string, number>>;
  findings: string[];
}

const CONCURRENCY = 24;
const DEADLINE_MS = 30_000;
/** Long polls are left after this time, as clients leave. */
const POLL_MS = 300;
const STREAM = '/api/v1/tenants/{slug}/events/stream';
const SOCKET_KINDS = ['platform_key', 'public_key', 'bot', 'admin_session'];
/** Kinds that work in the tenant that a header names. */
const ROAMING = ['super_admin', 'admin_key'];
/** For every caller, the tenant of these operations is the one in the header. */
const NAMING = /^\/api\/auth\/tenant\/(login|developer-token|register|(forgot|reset)-password)$/;
/** Left to the end of a round: they may end credentials, or the tenant. */
const ENDING =
  /^(DELETE \/api\/admin\/(platform\/tenants|sessions)|PATCH \/api\/(admin\/platform\/tenants|tenant)|DELETE \/api\/entities\/\{entityName\}$|POST \/api\/auth\/tenant\/(logout|refresh|change-password)|DELETE \/api\/auth\/sessions|POST \/health)/;

/** What a kind may call, with the entities of its tenant: the same in each round. */
interface Allowed {
  document: Schema;
  operations: Operation[];
  tools: Schema[];
}

const allowedByKind = new Map<string, Allowed>();
let check: ReturnType<typeof contractCheck> | undefined;

parentPort?.on('message', (round: Round) => {
  void new Client(round).run().then((report) => parentPort?.postMessage(report));
});

class Client {
  readonly #round: Round;
  readonly #random: Random;
  readonly #names: Names;
  readonly #templateOf: (path: string) => string | undefined;
  readonly #report: RoundReport = { statuses: {}, allowed: [], successes: {}, refusals: {}, findings: [] };

  constructor(round: Round) {
    this.#round = round;
    this.#random = new Random(round.seed);
    const paths = Object.keys(round.document.paths);
    this.#templateOf = templates(paths);
    this.#names = new Names(paths, round.kept);
    check ??= contractCheck(round.document);
    for (const [template, path, data] of round.seeds) this.#names.learn(template, path, data);
    for (const asset of ['swagger-ui.css', 'swagger-ui-bundle.js']) {
      this.#names.learn('/swagger/assets', '/swagger/assets', { id: asset });
    }
  }

  async run(): Promise<RoundReport> {
    for (const [kind, headers] of Object.entries(this.#round.credentials)) {
      if (!allowedByKind.has(kind)) allowedByKind.set(kind, await this.#readAllowed(kind, headers));
      this.#reportAllowed(kind);
    }
    const ending = Math.floor(this.#round.requests / 10);
    await this.#requests(this.#round.requests - ending, false);
    await this.#agree();
    await this.#requests(ending, true);
    return this.#report;
  }

  /** Sends so many requests, several at a time. */
  async #requests(count: number, isEnding: boolean): Promise<void> {
    let left = count;
    const work = async (): Promise<void> => {
      while (left-- > 0) await this.#one(isEnding);
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
  }

  async #agree(): Promise<void> {
    const { url, credentials } = this.#round;
    const key = credentials.owner_key?.['x-api-key'] ?? '';
    const secret = credentials.super_admin?.['x-admin-secret'] ?? '';
    const differing = await disagreements(url, key, secret).catch((error: Error) => [error.message]);
    this.#report.findings.push(...differing.slice(0, 3));
  }

  async #readAllowed(kind: string, headers: Record<string, string>): Promise<Allowed> {
    const { url, slug } = this.#round;
    const tenant: Record<string, string> = ROAMING.includes(kind) ? { 'x-tenant-id': slug } : {};
    const response = await fetch(`${url}/swagger/json`, { headers: { ...headers, ...tenant } });
    const document: Schema = await response.json();
    const all = operationsOf(document, this.#templateOf);
    for (const { declared } of all) {
      declared.parameters = (declared.parameters ?? []).map(
        (each: Schema) => document.components.parameters[each.$ref?.split('/').at(-1)] ?? each,
      );
    }
    // The document for everybody describes everything; without a credential, little of it can succeed.
    const asKind: Record<string, (operation: Operation) => boolean> = { none: isOpen, as_role: isRead };
    const operations = all.filter(asKind[kind] ?? (() => true));
    const answer = await this.#mcp('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', { ...headers, ...tenant });
    return { document, operations, tools: rpcResult(await answer.text())?.tools ?? [] };
  }

  #reportAllowed(kind: string): void {
    const { operations, tools } = allowedByKind.get(kind) as Allowed;
    for (const { method, generic } of operations) {
      if (generic !== '/ws') this.#report.allowed.push(`${kind} ${method} ${generic}`);
    }
    for (const { name } of tools) this.#report.allowed.push(`${kind} tool ${name}`);
    if (SOCKET_KINDS.includes(kind)) this.#report.allowed.push(`${kind} WebSocket subscribe`);
  }

  async #one(isEnding: boolean): Promise<void> {
    const random = this.#random;
    const kinds = Object.keys(this.#round.credentials);
    const kind = random.pick(kinds);
    if (random.chance(0.02)) return await this.#socket(random.pick(SOCKET_KINDS));
    if (random.chance(0.12)) return await this.#tool(kind);
    // Mostly what the kind may call, else what another kind may.
    const { document, operations } = allowedByKind.get(random.chance(0.85) ? kind : random.pick(kinds)) as Allowed;
    const operation = random.pick(operations);
    if (ENDING.test(`${operation.method} ${operation.generic}`) && !isEnding) return await this.#one(isEnding);
    const request = requestFor(random, operation, document, this.#names);
    // Sometimes others send the same at the same moment.
    const others = random.chance(0.05) ? Array.from({ length: 1 + random.below(3) }, () => random.pick(kinds)) : [];
    const send = async (each: string): Promise<void> => {
      const { method, path, body } = request;
      const credential = { ...this.#round.credentials[each], ...this.#tenantHeader(each, NAMING.test(path)) };
      const headers = { ...request.headers, ...newAddress(), ...credential };
      await this.#judge(each, `${method} ${path}`, body, () => this.#send(each, { ...request, headers }, operation));
    };
    await Promise.all([kind, ...others].map(send));
  }

  #tenantHeader(kind: string, isNaming = false): Record<string, string> {
    const isNamed = isNaming || ROAMING.includes(kind) || kind === 'none';
    if (!this.#random.chance(isNamed ? 0.85 : 0.05)) return {};
    return { 'x-tenant-id': this.#random.chance(0.95) ? this.#round.slug : 'nothing' };
  }

  /** Runs something that resolves to everything received; notes what is wrong with it. */
  async #judge(kind: string, what: string, body: string | undefined, run: () => Promise<string>): Promise<void> {
    const note = (finding: string): void => {
      this.#report.findings.push(`${kind}: ${what.slice(0, 400)}: ${finding}\n  ${body?.slice(0, 600) ?? ''}`);
    };
    try {
      const text = await run();
      for (const secret of [this.#round.canary, ...(SECRETS_BY_KIND[kind] ?? [])]) {
        if (text.includes(secret)) note(`shows ${secret}: ${text.slice(0, 800)}`);
      }
    } catch (error) {
      note((error as Error).message.slice(0, 800));
    }
  }

  async #send(kind: string, request: FuzzRequest, operation: Operation): Promise<string> {
    const { method, path, headers, body } = request;
    const isPoll = path.includes('wait=');
    const signal = deadline(isPoll ? POLL_MS : DEADLINE_MS);
    const response = await fetch(this.#round.url + path, {
      method,
      headers,
      redirect: 'manual',
      signal,
      ...(body === undefined ? {} : { body }),
    }).catch((error) => {
      if (isPoll && signal.aborted) return null;
      throw error;
    });
    if (response === null) return '';
    const { status } = response;
    this.#count(status);
    const template = operation.generic;
    if (status < 400) this.#succeeded(kind, `${method} ${template}`);
    if (template === STREAM && status === 200) {
      const { text, finding } = await readStream(response);
      if (finding !== undefined) throw new Error(finding);
      return text;
    }
    const text = await response.text();
    if (status >= 500) throw new Error(`${status} ${text.slice(0, 500)}`);
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    const parsed = isJson && text !== '' ? JSON.parse(text) : text;
    if (status >= 400) this.#refused(`${method} ${template}`, `${status} ${failureIn(parsed)}`);
    if (status < 300) this.#learn(method, template, path, response, parsed);
    check?.({ method, path, status, headers: response.headers, body: parsed });
    return text;
  }

  #learn(method: string, template: string, path: string, response: Response, parsed: Schema): void {
    this.#names.add('cursor', response.headers.get('changes-cursor'));
    this.#names.add('etag', response.headers.get('etag'));
    if (path.includes('dryRun=true')) return;
    if (method === 'DELETE') this.#names.forget(path);
    else this.#names.learn(template, path, parsed?.data);
  }

  async #socket(kind: string): Promise<void> {
    const [value = ''] = Object.values(this.#round.credentials[kind] ?? {});
    const token = value.replace('Bearer ', '');
    await this.#judge(kind, 'WebSocket', undefined, async () => {
      const { text, succeeded, finding } = await fuzzSocket(this.#random, this.#round.url, token, this.#names);
      this.#count('ws');
      if (succeeded) this.#succeeded(kind, 'WebSocket subscribe');
      if (finding !== undefined) throw new Error(finding);
      return text;
    });
  }

  async #tool(kind: string): Promise<void> {
    const tools = allowedByKind.get(kind)?.tools ?? [];
    if (tools.length === 0) return;
    const { name, body } = toolCall(this.#random, tools, this.#names);
    await this.#judge(kind, 'MCP', body, async () => {
      const response = await this.#mcp(body, { ...this.#round.credentials[kind], ...this.#tenantHeader(kind) });
      const text = await response.text();
      this.#count(`mcp ${response.status}`);
      if (response.status >= 500 || isInternal(text)) throw new Error(`${response.status} ${text}`);
      const result = rpcResult(text);
      if (response.status === 200 && result !== undefined && result.isError !== true)
        this.#succeeded(kind, `tool ${name}`);
      if (result?.isError !== false && result?.isError !== undefined) this.#refused(`tool ${name}`, text);
      this.#count(result?.isError === true ? 'mcp isError' : 'mcp done');
      return text;
    });
  }

  async #mcp(body: string, headers: Record<string, string>): Promise<Response> {
    return await fetch(`${this.#round.url}/mcp?profile=advanced`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      body,
      signal: deadline(DEADLINE_MS),
    });
  }

  #count(status: number | string): void {
    this.#report.statuses[status] = (this.#report.statuses[status] ?? 0) + 1;
  }

  #refused(operation: string, reason: string): void {
    const reasons = this.#report.refusals[operation] ?? {};
    this.#report.refusals[operation] = reasons;
    const short = reason.slice(0, 160);
    reasons[short] = (reasons[short] ?? 0) + 1;
  }

  #succeeded(kind: string, operation: string): void {
    const pair = `${kind} ${operation}`;
    this.#report.successes[pair] = (this.#report.successes[pair] ?? 0) + 1;
  }
}

const isRead = ({ method }: Operation): boolean => method === 'GET';

/** Whether an operation needs no credential. */
function isOpen({ declared }: Operation): boolean {
  return (declared.security ?? []).length === 0;
}
