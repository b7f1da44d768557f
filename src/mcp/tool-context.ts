// Opens the context of a tool call: authenticates the request in the tenant that the call or the session names.
// Every call is authenticated and rate-limited like a REST request. Throws 401, 429 and 503; an unknown tenant, or
// one that the credential cannot access, becomes the tool's failure, and so does the end of the session's login.
// Contract: decisions#mcp.
import { authenticate } from '../access/authenticate.ts';
import type { Caller } from '../access/caller.ts';
import type { Claims } from '../access/jwt.ts';
import { shareRequestContext } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { documentFor } from '../docs/caller-document.ts';
import type { ListedRoute } from '../docs/document.ts';
import { summaryFor } from '../docs/summary.ts';
import { invalidField, ServiceError } from '../errors.ts';
import { sized } from '../http/bounded-response.ts';
import { LIMITS } from '../limits.ts';
import { asUser, loginEnded } from './login.ts';
import { type SessionMemory, TENANT_SLUG, type ToolContext } from './tool.ts';

/** The routes of the service, for the API document. */
export type Routes = () => readonly ListedRoute[];

/** A context; with a `failure`, every tool that needs a credential fails with it. */
export interface OpenedToolContext {
  context: ToolContext;
  failure?: ServiceError;
}

/** Opens the context in a tenant, by default the session's. */
export type OpenToolContext = (tenantSlug: string | undefined) => Promise<OpenedToolContext>;

const SLUG = new RegExp(TENANT_SLUG.pattern as string);

/** Opens the context in the given tenant, if any; as the user of the session's login, if it has one. */
export async function openToolContext(
  app: App,
  request: Request,
  slug: string | undefined,
  routes: Routes,
  session: SessionMemory,
  login: Claims | null = null,
): Promise<OpenedToolContext> {
  const contextOf = (authenticated: Request, caller: Caller | null): ToolContext => ({
    app,
    request: authenticated,
    caller: caller === null ? null : { ...caller, triggeredBy: 'mcp' },
    describeApi: async (entityName, detail) => describeApi(app, routes(), caller as Caller, entityName, detail),
    session,
  });
  let inTenant = request;
  try {
    if (slug !== undefined) inTenant = inTenantOf(request, slug);
    const authenticated = login === null ? inTenant : await asUser(app, inTenant, login);
    return { context: contextOf(authenticated, await authenticate(app, authenticated)) };
  } catch (error) {
    if (login !== null && error instanceof ServiceError && error.ecode === 'UNAUTHORIZED') {
      return { context: contextOf(inTenant, null), failure: loginEnded() };
    }
    if (!(error instanceof ServiceError) || !['FORBIDDEN', 'NOT_FOUND', 'VALIDATION_ERROR'].includes(error.ecode)) {
      throw error;
    }
    return { context: contextOf(inTenant, null), failure: error };
  }
}

/** The same request with a tenant header. 400 for an invalid slug. */
function inTenantOf(request: Request, slug: string): Request {
  if (!SLUG.test(slug)) throw invalidField('tenantSlug', 'must be the slug of a tenant');
  return withTenantHeader(request, slug);
}

/** The same request without a tenant header: a credential is accepted whichever tenant the request names. */
export function inNoTenant(request: Request): Request {
  return withTenantHeader(request, null);
}

function withTenantHeader(request: Request, slug: string | null): Request {
  const headers = new Headers(request.headers);
  headers.delete('x-tenant-id');
  headers.delete('x-tenant-slug');
  if (slug !== null) headers.set('x-tenant-id', slug);
  const named = new Request(request.url, { method: request.method, headers });
  shareRequestContext(request, named);
  return named;
}

async function describeApi(
  app: App,
  routes: readonly ListedRoute[],
  caller: Caller,
  entityName: string | undefined,
  detail: 'summary' | 'full',
): Promise<object & Record<string, unknown>> {
  const entityNames = entityName === undefined ? null : [entityName];
  if (detail === 'summary') return sized(await summaryFor(app, routes, caller, entityNames), LIMITS.response.largeFrom);
  const { document, bytes } = await documentFor(app, routes, {
    caller,
    entityNames,
    bytesMax: LIMITS.response.bytesMax / 2,
    remedy: 'name the entity that it shall describe in entity_name',
  });
  return sized(document, bytes);
}
