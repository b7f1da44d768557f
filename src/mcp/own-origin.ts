// Keeps other sites' pages away from /mcp: a browser that was led to this address under another name
// (DNS rebinding), or a page of another origin, gets 403. Programs that are no browsers send no Origin.
// Contract: decisions#mcp.
import { hostOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { tenantByHost } from '../tenants/tenants.ts';

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]', '::1'];

/**
 * 403 unless the request is addressed to this service and comes from its own origin, if from any. Where the service
 * listens for others and nobody said under which name (BASE_URL), it answers to every name.
 */
export async function requireOwnOrigin(app: App, request: Request): Promise<void> {
  const { baseUrl, host: boundTo, trustProxy } = app.config;
  const names = new Set([...LOOPBACK, boundTo, ...(baseUrl === null ? [] : [new URL(baseUrl).hostname])]);
  const host = hostOf(request, trustProxy);
  const isAnyName = baseUrl === null && !LOOPBACK.includes(boundTo);
  if (host !== '' && !isAnyName && !names.has(host) && (await tenantByHost(app, host)) === null) {
    throw forbidden('this host name is not the service’s');
  }
  const origin = request.headers.get('origin');
  if (origin === null) return;
  const from = URL.parse(origin)?.hostname;
  if (from === undefined || (from !== host && !names.has(from))) throw forbidden('requests of this origin are refused');
}
