// MCP over standard input and output, for clients that start their own servers: the same tools on the same
// database, configured by the same environment. The credential is SVC_CREDENTIAL (a key or token) or
// SVC_ADMIN_SECRET, the tenant SVC_TENANT, the profile SVC_MCP_PROFILE (basic, advanced). Standard output carries
// only the protocol; the log goes to standard error. Ends when the input has ended and every request is answered.
// Exit codes: 0, or 1 when it cannot start. Contract: decisions#mcp.
import process from 'node:process';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { attachRequestContext } from './access/request-context.ts';
import { createApi, documentFor } from './api.ts';
import { type App, closeApp, createApp } from './app.ts';
import { ConfigError, readConfig, readEnvironment, withGeneratedSecrets } from './config.ts';
import { mcpServer } from './mcp/server.ts';
import type { Profile } from './mcp/tool.ts';
import { type DescribeRoutes, type OpenToolContext, openToolContext } from './mcp/tool-context.ts';
import { createLog } from './runtime/log.ts';
import { Stages } from './runtime/stages.ts';

type Environment = Readonly<Record<string, string | undefined>>;

async function main(): Promise<number> {
  const environment = readEnvironment();
  const config = withGeneratedSecrets(readConfig(environment));
  const profile = profileOf(environment);
  const log = createLog({ level: config.logLevel });
  const stages = new Stages();
  try {
    let { databaseUrl } = config;
    if (databaseUrl === null) {
      const { startEmbedded } = await import('./runtime/embedded.ts');
      const embedded = await startEmbedded(config.dataDir, log);
      stages.add('embedded database', () => embedded.stop());
      databaseUrl = embedded.url;
    }
    const app = await createApp(config, databaseUrl, log);
    stages.add('broker and database', () => closeApp(app));
    app.address = config.baseUrl ?? `http://${config.host}:${config.port}`;
    const open = contextOpener(app, headersOf(environment));
    const { transport, isAnswered } = untilAnswered(process.stdin, process.stdout);
    const connection = serveStdio(() => mcpServer(app, profile, open), {
      transport,
      onerror: (error) => log.warn('invalid message on standard input', { error }),
    });
    await Promise.race([isAnswered, terminationSignal()]);
    await connection.close();
    await new Promise<unknown>((resolve) => process.stdout.write('', resolve));
  } finally {
    await stages.close(log);
  }
  return 0;
}

function profileOf({ SVC_MCP_PROFILE: profile = 'basic' }: Environment): Profile {
  if (profile === 'basic' || profile === 'advanced') return profile;
  throw new ConfigError(['SVC_MCP_PROFILE: expected basic or advanced']);
}

/** The headers that a REST client would send. */
function headersOf({ SVC_CREDENTIAL, SVC_ADMIN_SECRET, SVC_TENANT }: Environment): Record<string, string> {
  return {
    ...(SVC_CREDENTIAL ? { authorization: `Bearer ${SVC_CREDENTIAL}` } : {}),
    ...(SVC_ADMIN_SECRET ? { 'x-admin-secret': SVC_ADMIN_SECRET } : {}),
    ...(SVC_TENANT ? { 'x-tenant-id': SVC_TENANT } : {}),
  };
}

/** Authenticates every call; the connection is one session. */
function contextOpener(app: App, headers: Record<string, string>): OpenToolContext {
  const { routes } = createApi(app);
  const describe: DescribeRoutes = (caller) => documentFor(app, routes, caller);
  let selected: string | undefined;
  const keep = async (slug: string): Promise<boolean> => {
    selected = slug;
    return true;
  };
  return async (slug) => {
    const request = new Request(`${app.address}/mcp`, { method: 'POST', headers });
    attachRequestContext(request, 'stdio', 0);
    return openToolContext(app, request, slug ?? selected, describe, keep);
  };
}

/** A transport that stays open after its input has ended, until every request is answered. */
function untilAnswered(input: Readable, output: Writable) {
  const lines = new PassThrough();
  const answers = new PassThrough();
  const waiting = new Set<unknown>();
  let hasEnded = false;
  let finish = (): void => undefined;
  const isAnswered = new Promise<void>((resolve) => {
    finish = resolve;
  });
  eachMessage(input, ({ id, method, params }) => {
    if (id !== undefined && method !== undefined) waiting.add(id);
    if (method === 'notifications/cancelled') waiting.delete(params?.requestId);
  });
  eachMessage(answers, ({ id, method }) => {
    if (method === undefined) waiting.delete(id);
    if (hasEnded && waiting.size === 0) finish();
  });
  input.pipe(lines, { end: false });
  answers.pipe(output, { end: false });
  input.once('end', () => {
    hasEnded = true;
    if (waiting.size === 0) finish();
  });
  return { transport: new StdioServerTransport(lines, answers), isAnswered };
}

interface Message {
  id?: unknown;
  method?: unknown;
  params?: { requestId?: unknown };
}

/** Calls back for each JSON message in the stream, one per line; the transport reports invalid ones. */
function eachMessage(stream: Readable, onMessage: (message: Message) => void): void {
  let rest = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      const message = parsed(rest.subarray(0, end).toString());
      rest = rest.subarray(end + 1);
      if (message !== undefined) onMessage(message);
    }
  });
}

function parsed(line: string): Message | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return message !== null && typeof message === 'object' ? message : undefined;
  } catch {
    return undefined;
  }
}

function terminationSignal(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', () => resolve());
    process.once('SIGINT', () => resolve());
  });
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    console.error(error instanceof ConfigError ? message : `the MCP server cannot start: ${message}`);
    process.exit(1);
  },
);
