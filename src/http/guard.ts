// Admits callers to routes: authentication, then the route's access, then the JSON body, so that 401
// comes before 403 and both before any fault of the body. A path parameter that Postgres cannot store
// is a 404. Hooks are literal `async` functions: the framework reads their source to know what to await.
// Contract: decisions#answers.
import { Elysia } from 'elysia';
import { type AdminKeyAccess, isAdminKeyAccess, requireBothCredentials } from '../access/admin-key-access.ts';
import { authenticate } from '../access/authenticate.ts';
import { type Caller, requireTenant, requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { forbidden, notFound, unauthorized } from '../errors.ts';
import { textProblem } from '../runtime/text.ts';
import { jsonBodies } from './json-body.ts';

/** Routes inside a tenant: for any credential there, or for its admins. Handlers get a `TenantCaller`. */
export type TenantAccess = 'tenant' | 'admin';

/**
 * Routes of the platform: for `any` credential, an admin `session` token, the super-admin (`super`), the super-admin or
 * an admin key with the scope named, or (`admin-keys:...`) the super-admin together with an admin key. Handlers get a `Caller`.
 */
export type PlatformAccess =
  | 'any'
  | 'session'
  | 'super'
  | 'platform:read'
  | 'platform:write'
  | 'tenants:manage'
  | AdminKeyAccess;

/** Who may use a route; `open` routes need no credential. */
export type Access = TenantAccess | PlatformAccess | 'open';

/**
 * The macros by which a route admits its callers, `tenant` and `platform`, and `json`, which reads its body: `true` for
 * at most MAX_BODY_BYTES, else a limit in bytes.
 */
export function guard(app: App) {
  return new Elysia({ name: 'guard' })
    .use(jsonBodies(app))
    .decorate('currentApp', () => app)
    .macro('tenant', (access: TenantAccess) => admission(access, admitToTenant))
    .macro('platform', (access: PlatformAccess) => admission(access, admitToPlatform))
    .macro('access', (access: Exclude<Access, 'open'>) => admission(access, admitAny));
}

async function admitAny(app: App, caller: Caller, access: Exclude<Access, 'open'>): Promise<TenantCaller> {
  if (access === 'tenant' || access === 'admin') return admitToTenant(app, caller, access);
  return (await admitToPlatform(app, caller, access)) as TenantCaller;
}

/** What a hook sees of the request; the framework does not know the members that hooks add. */
interface Context {
  currentApp: () => App;
  request: Request;
  params?: Params;
  caller?: unknown;
}

/** The hooks of a route: admission before the body is read, the caller typed by what it was admitted as. */
function admission<A extends Exclude<Access, 'open'>, C extends Caller>(
  access: A,
  admit: (app: App, caller: Caller, access: A) => Promise<C>,
) {
  return {
    // A route's options, with these hooks, are shared by every App of the process.
    transform: async (context: Context) => {
      const app = context.currentApp();
      const caller = await authenticate(app, context.request);
      if (caller === null) throw unauthorized();
      context.caller = await admit(app, caller, access);
      for (const name in context.params) requireStorable(context.params[name] ?? null);
    },
    // Runs after the input is checked; `transform` cannot type what it adds.
    resolve: ({ caller }: Context) => ({ caller: caller as C }),
    // biome-ignore lint/suspicious/noExplicitAny: the framework's type for `detail` has no room for extensions
    detail: { 'x-access': access, security: SECURITY[access] } as any,
  };
}

/** Path parameters; null for one whose bytes are no text. */
type Params = Readonly<Record<string, string | null>>;

function requireStorable(parameter: string | null): void {
  if (parameter === null || textProblem(parameter) !== undefined) throw notFound('resource');
}

const TENANT_CREDENTIALS = [{ bearer: [] }, { apiKey: [] }, { publicKey: [] }, { adminSecret: [] }];
const BOTH_CREDENTIALS = [{ adminSecret: [], adminKey: [] }];
const ADMIN_CREDENTIALS = [{ bearer: [] }, { apiKey: [] }, { adminSecret: [] }];

/** Security requirements of the API document, by access. */
const SECURITY: Record<Exclude<Access, 'open'>, object[]> = {
  any: [...TENANT_CREDENTIALS, { adminKey: [] }],
  tenant: TENANT_CREDENTIALS,
  admin: ADMIN_CREDENTIALS,
  session: [{ bearer: [] }],
  super: [{ adminSecret: [] }],
  'platform:read': [{ adminSecret: [] }, { adminKey: [] }],
  'platform:write': [{ adminSecret: [] }, { adminKey: [] }],
  'tenants:manage': [{ adminSecret: [] }, { adminKey: [] }],
  'admin-keys:read': BOTH_CREDENTIALS,
  'admin-keys:write': BOTH_CREDENTIALS,
  'admin-keys:create': [...BOTH_CREDENTIALS, { adminSecret: [] }],
};

async function admitToTenant(_: App, caller: Caller, access: TenantAccess): Promise<TenantCaller> {
  return access === 'admin' ? requireTenantAdmin(caller) : requireTenant(caller);
}

/** 401 or 403 unless the caller may use a platform route of this access. */
async function admitToPlatform(app: App, caller: Caller, access: PlatformAccess): Promise<Caller> {
  // A suspended tenant gets 403 for every request; platform credentials may come without a tenant.
  if (access === 'any') return caller.tenant === null ? caller : requireTenant(caller);
  if (isAdminKeyAccess(access)) await requireBothCredentials(app, caller, access);
  else if (access === 'session') {
    if (caller.kind !== 'admin_session') throw forbidden('this needs an admin session token');
  } else if (caller.kind !== 'super_admin' && (access === 'super' || !caller.scopes?.includes(access))) {
    throw forbidden();
  }
  return caller;
}
