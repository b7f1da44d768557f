// Admits callers to routes: authentication, then the route's access level, then the query and the JSON body. So 401 precedes
// 403, both precede problems of the query, and these precede problems of the body. A path parameter that Postgres cannot store
// is a 404. Hooks are literal `async` functions: the framework reads their source to know what to await.
// Contract: decisions#responses.
import { Elysia } from 'elysia';
import { authenticate } from '../access/authenticate.ts';
import {
  type Caller,
  requireOneRight,
  requireTenant,
  requireTenantAdmin,
  type TenantCaller,
} from '../access/caller.ts';
import { markQueryRefused } from '../access/request-context.ts';
import type { Operation } from '../access/rights.ts';
import {
  type Access,
  type PlatformAccess,
  requirePlatformAccess,
  securityOf,
  type TenantAccess,
} from '../access/route-access.ts';
import type { App } from '../app.ts';
import { notFound, unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { textProblem } from '../runtime/text.ts';
import { hasNoBody, readJson } from './body.ts';

/** The macros of a route: `tenant` or `platform` admits its callers, then `inputs` reads its query and body. */
export function guard(app: App) {
  return new Elysia({ name: 'guard' })
    .decorate('currentApp', () => app)
    .macro('tenant', (access: TenantAccess) => admission(access, admitToTenant))
    .macro('platform', (access: PlatformAccess) => admission(access, requirePlatformAccess))
    .macro('inputs', reading);
}

/** The framework's context of a hook, with the members that hooks add. */
interface Context {
  currentApp: () => App;
  request: Request;
  params?: Params;
  query?: unknown;
  body?: unknown;
  caller?: unknown;
}

/**
 * The hooks of a route: they admit the caller before the body is read, and narrow its type to what the access level
 * admits.
 */
function admission<A extends Exclude<Access, 'open'>, C extends Caller>(
  access: A,
  admit: (app: App, caller: Caller, access: A) => Promise<C>,
) {
  return {
    // Every App of the process shares these hooks, so the App comes from the context.
    transform: async (context: Context) => {
      const app = context.currentApp();
      const caller = await authenticate(app, context.request, access);
      if (caller === null) throw unauthorized();
      context.caller = await admit(app, caller, access);
      for (const name in context.params) requireStorable(context.params[name] ?? null);
    },
    // Runs after input validation. Needed because the framework does not type what `transform` adds to the context.
    resolve: ({ caller }: Context) => ({ caller: caller as C }),
    // biome-ignore lint/suspicious/noExplicitAny: the framework's type for `detail` does not allow extensions
    detail: { 'x-access': access, security: securityOf(access) } as any,
  };
}

/** The rights of which a caller needs at least one, by the URL of the request. */
export type RightOf = (url: string) => readonly [Operation, ...Operation[]];

/** The inputs that a route takes. */
export interface RouteInputs {
  /** The operation id. */
  id: string;
  /** The right that the caller needs on the entity that the path names. */
  right: Operation | RightOf | undefined;
  readQuery(url: string): Readonly<Record<string, unknown>>;
  body: 'none' | 'optional' | 'required';
}

/** The hook that runs after admission: it requires the right, and reads the query, then the JSON body. */
function reading({ id, right, readQuery, body }: RouteInputs) {
  return {
    transform: async (context: Context) => {
      const { request, caller, params } = context;
      if (right !== undefined) {
        const rights = typeof right === 'string' ? ([right] as const) : right(request.url);
        requireOneRight(caller as TenantCaller, rights, params?.entityName ?? '');
      }
      try {
        context.query = readQuery(request.url);
      } catch (cause) {
        markQueryRefused(request, id);
        throw cause;
      }
      if (body === 'none') return;
      const isMissing = body === 'optional' && hasNoBody(request);
      const { maxBodyBytes } = context.currentApp().config;
      context.body = isMissing
        ? {}
        : await readJson(request, caller === undefined ? openMax(maxBodyBytes) : maxBodyBytes);
    },
  };
}

/** The largest body of a request without a credential. */
export function openMax(maxBodyBytes: number): number {
  return Math.min(LIMITS.body.openMax, maxBodyBytes);
}

/** Path parameters; null for one that is not valid UTF-8. */
type Params = Readonly<Record<string, string | null>>;

function requireStorable(parameter: string | null): void {
  if (parameter === null || textProblem(parameter) !== undefined) throw notFound('resource');
}

async function admitToTenant(_: App, caller: Caller, access: TenantAccess): Promise<TenantCaller> {
  return access === 'admin' ? requireTenantAdmin(caller) : requireTenant(caller);
}
