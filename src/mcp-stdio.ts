// MCP over standard input and output, for clients that start their own servers: the same tools on the same
// database, configured by the same environment. The credential is SVC_CREDENTIAL (a key or token) or
// SVC_ADMIN_SECRET, the tenant SVC_TENANT, the profile SVC_MCP_PROFILE (basic, advanced). Standard output carries
// only the protocol; the log goes to standard error. Exits when the input has ended and every request is answered.
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
    const { transport, drained } = drainingTransport(process.stdin, process.stdout);
    const connection = serveStdio(() => mcpServer(app, profile, open), {
      transport,
      onerror: (error) => log.warn('invalid message on standard input', { error }),
    });
    await Promise.race([drained, terminationSignal()]);
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

/** Authenticates every call. The connection is one session. */
function contextOpener(app: App, headers: Record<string, string>): OpenToolContext {
  const { routes } = createApi(app);
  const describe: DescribeRoutes = (caller) => documentFor(app, routes, caller);
  let selected: string | undefined;
  const selectTenant = async (slug: string): Promise<boolean> => {
    selected = slug;
    return true;
  };
  return async (slug) => {
    const request = new Request(`${app.address}/mcp`, { method: 'POST', headers });
    attachRequestContext(request, 'stdio', 0);
    return openToolContext(app, request, slug ?? selected, describe, selectTenant);
  };
}

/** A transport that stays open after its input has ended, until every request is answered. */
function drainingTransport(input: Readable, output: Writable) {
  const lines = new PassThrough();
  const replies = new PassThrough();
  const pending = new Set<unknown>();
  let hasEnded = false;
  let finish = (): void => undefined;
  const drained = new Promise<void>((resolve) => {
    finish = resolve;
  });
  eachMessage(input, ({ id, method, params }) => {
    if (id !== undefined && method !== undefined) pending.add(id);
    if (method === 'notifications/cancelled') pending.delete(params?.requestId);
  });
  eachMessage(replies, ({ id, method }) => {
    if (method === undefined) pending.delete(id);
    if (hasEnded && pending.size === 0) finish();
  });
  input.pipe(lines, { end: false });
  replies.pipe(output, { end: false });
  input.once('end', () => {
    hasEnded = true;
    if (pending.size === 0) finish();
  });
  return { transport: new StdioServerTransport(lines, replies), drained };
}

interface Message {
  id?: unknown;
  method?: unknown;
  params?: { requestId?: unknown };
}

/** Calls `onMessage` for each JSON line in the stream. Skips invalid ones: the transport reports them. */
function eachMessage(stream: Readable, onMessage: (message: Message) => void): void {
  let buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    for (let end = buffer.indexOf('\n'); end >= 0; end = buffer.indexOf('\n')) {
      const message = parseMessage(buffer.subarray(0, end).toString());
      buffer = buffer.subarray(end + 1);
      if (message !== undefined) onMessage(message);
    }
  });
}

function parseMessage(line: string): Message | undefined {
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
