// The client, in a worker thread of its own, so that its work does not count as a stall of the service. It sends a share
// of the requests, and reports each finding: a 5xx, a response that the document does not allow, a secret of the other
// tenant, no response in time. Times are milliseconds.
import { parentPort } from 'node:worker_threads';
import { contractCheck } from '../../test/support/contract.ts';
import { Random } from './random.ts';
import { type FuzzRequest, type Operation, operationsOf, requestFor } from './requests.ts';
import type { Schema } from './values.ts';

/** What the client is told to do. */
export interface Round {
  url: string;
  document: Schema;
  seed: number;
  requests: number;
  /** Headers by kind of credential. */
  credentials: Readonly<Record<string, Readonly<Record<string, string>>>>;
  slug: string;
  known: readonly string[];
  canary: string;
}

/** What the client saw. */
export interface RoundReport {
  statuses: Record<number, number>;
  operations: string[];
  findings: string[];
}

const CONCURRENCY = 8;
const DEADLINE_MS = 30_000;
const KNOWN_MAX = 300;
/** Half of the requests have one of these kinds, which reach most operations. */
const ADMINS = ['owner_key', 'admin_user', 'admin_session', 'super_admin'];
const STREAM = /\/events\/stream$/;
/** It would change the other tenant, or all of them. */
const EXCLUDED = new Set(['POST /health/schema/fix']);

parentPort?.on('message', (round: Round) => {
  void runRound(round).then((report) => parentPort?.postMessage(report));
});

async function runRound(round: Round): Promise<RoundReport> {
  const random = new Random(round.seed);
  const operations = operationsOf(round.document).filter(({ method, path }) => !EXCLUDED.has(`${method} ${path}`));
  const check = contractCheck(round.document);
  const known = [...round.known];
  const report: RoundReport = { statuses: {}, operations: [], findings: [] };
  const used = new Set<string>();
  let left = round.requests;
  const work = async (): Promise<void> => {
    while (left-- > 0) {
      const operation = random.pick(operations);
      used.add(`${operation.method} ${operation.path}`);
      const kind = random.pick(random.chance(0.5) ? ADMINS : Object.keys(round.credentials));
      const request = requestFor(random, operation, round.document, known);
      Object.assign(request.headers, round.credentials[kind], tenantHeader(random, kind, round.slug));
      const finding = await send(round, request, operation, { check, known, statuses: report.statuses });
      if (finding !== undefined)
        report.findings.push(`${kind}: ${request.method} ${request.path.slice(0, 300)}: ${finding}`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return { ...report, operations: [...used] };
}

function tenantHeader(random: Random, kind: string, slug: string): Record<string, string> {
  if (!random.chance(kind === 'super_admin' ? 0.7 : 0.1)) return {};
  return { 'x-tenant-id': random.chance(0.9) ? slug : 'nothing' };
}

interface Progress {
  check: ReturnType<typeof contractCheck>;
  known: string[];
  statuses: Record<number, number>;
}

/** Sends a request; resolves to what is wrong with the response, if anything. */
async function send(
  round: Round,
  request: FuzzRequest,
  operation: Operation,
  progress: Progress,
): Promise<string | undefined> {
  const { method, path, headers, body } = request;
  try {
    const response = await fetch(round.url + path, {
      method,
      headers,
      redirect: 'manual',
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...(body === undefined ? {} : { body }),
    });
    const { status } = response;
    progress.statuses[status] = (progress.statuses[status] ?? 0) + 1;
    if (STREAM.test(operation.path) && status === 200) {
      await response.body?.cancel();
      return undefined;
    }
    const text = await response.text();
    if (text.includes(round.canary)) return `shows a secret of the other tenant: ${text.slice(0, 500)}`;
    if (status >= 500) return `${status} ${text.slice(0, 500)}\n  ${body?.slice(0, 500) ?? ''}`;
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
    const parsed = isJson && text !== '' ? JSON.parse(text) : text;
    learn(parsed, progress.known);
    progress.check({ method, path, status, headers: response.headers, body: parsed });
    return undefined;
  } catch (error) {
    return `${(error as Error).message.slice(0, 800)}\n  ${body?.slice(0, 500) ?? ''}`;
  }
}

/** Remembers some of the ids and names that a response shows. */
function learn(value: Schema, known: string[]): void {
  const data = value?.data;
  const item = Array.isArray(data) ? data[0] : (data?.items?.[0] ?? data);
  for (const name of ['id', 'slug', 'name', 'key']) {
    const found = item?.[name];
    if (typeof found !== 'string' || found === '' || found.length > 100 || known.includes(found)) continue;
    if (known.length < KNOWN_MAX) known.push(found);
  }
}
