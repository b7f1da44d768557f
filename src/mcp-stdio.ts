// MCP over standard input and output, for clients that start their own servers: the same tools on the same
// database, configured by the same environment. The credential is SVC_CREDENTIAL (a key or token) or
// SVC_ADMIN_SECRET, the tenant SVC_TENANT, the profile SVC_MCP_PROFILE (basic, advanced). Standard output carries
// only the protocol; the log goes to standard error. Exits when the input has ended and every request is answered.
// Exit codes: 0, or 1 when it cannot start. Contract: decisions#mcp.
import process from 'node:process';
import type { JSONRPCMessage } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Claims } from './access/jwt.ts';
import { attachRequestContext } from './access/request-context.ts';
import { createApi, documentedRoutes } from './api.ts';
import { type App, closeApp, createApp } from './app.ts';
import { ConfigError, readConfig, readEnvironment, withGeneratedSecrets } from './config.ts';
import { claimsOf } from './mcp/login.ts';
import { mcpServer } from './mcp/server.ts';
import type { Profile, SessionMemory } from './mcp/tool.ts';
import { type OpenToolContext, openToolContext } from './mcp/tool-context.ts';
import { wholeResult } from './mcp/tool-results.ts';
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
    const transport = new DrainingTransport();
    const connection = serveStdio(() => mcpServer(app, profile, open, wholeResult), {
      transport,
      onerror: (error) => log.warn('invalid message on standard input', { error }),
    });
    transport.trackRequests();
    await Promise.race([transport.drained, terminationSignal()]);
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
  const routes = documentedRoutes(createApi(app).routes);
  let selected: string | undefined;
  let login: Claims | null = null;
  const memory: SessionMemory = {
    selectTenant: async (slug) => {
      selected = slug;
      return true;
    },
    logIn: async (token) => {
      login = await claimsOf(app, token);
      selected = undefined;
      return true;
    },
  };
  return async (slug) => {
    const request = new Request(`${app.address}/mcp`, { method: 'POST', headers });
    attachRequestContext(request, 'stdio', 0);
    return openToolContext(app, request, slug ?? selected, () => routes, memory, login);
  };
}

/** Stays open when its input ends. `drained` resolves when every request is answered, too, or the output has failed. */
class DrainingTransport extends StdioServerTransport {
  readonly #pending = new Set<unknown>();
  readonly #drained = Promise.withResolvers<void>();
  readonly drained = this.#drained.promise;
  #hasEnded = false;

  /** The SDK's transport would close here. */
  override _onstdinclose = (): void => {
    this.#hasEnded = true;
    this.#settle(undefined);
  };

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(message);
    if (!('method' in message)) this.#settle(message.id);
  }

  /** Must be called when the SDK has set its handlers. */
  trackRequests(): void {
    const { onmessage, onclose } = this;
    this.onmessage = (message) => {
      if ('id' in message && 'method' in message) this.#pending.add(message.id);
      else if ('method' in message && message.method === 'notifications/cancelled') {
        this.#settle(message.params?.requestId);
      }
      onmessage?.(message);
    };
    this.onclose = () => {
      onclose?.();
      this.#drained.resolve();
    };
  }

  #settle(id: unknown): void {
    this.#pending.delete(id);
    if (this.#hasEnded && this.#pending.size === 0) this.#drained.resolve();
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
