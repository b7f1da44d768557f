// The front door of every route: who asks, whether that kind may come in, and the JSON body; in this
// order, so that 401 comes before 403, and both before anything is said about the body. A path that
// names what cannot even be stored names nothing: 404.
// Hooks are literal `async` functions: the framework looks at their source to know what to await.
import { Elysia } from 'elysia';
import { type AdminKeyAccess, isAdminKeyAccess, requireBothCredentials } from '../access/admin-key-access.ts';
import { authenticate } from '../access/authenticate.ts';
import { type Caller, requireTenant, requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { forbidden, notFound, unauthorized } from '../errors.ts';
import { textProblem } from '../runtime/text.ts';
import { jsonBodies } from './json-body.ts';

/**
 * Who may use a route: `any` credential, any credential inside a `tenant`, a tenant `admin`, an
 * admin `session` token, the super-admin (`super`), the super-admin or an admin key with a scope, or
 * (`admin-keys:...`) the super-admin together with an admin key.
 */
export type Access =
  | 'any'
  | 'tenant'
  | 'admin'
  | 'session'
  | 'super'
  | 'platform:read'
  | 'platform:write'
  | 'tenants:manage'
  | AdminKeyAccess;

/**
 * The routes' shared context: `caller`, the macros `access` (every route states it) and `json` (its
 * body is read: `true` for at most MAX_BODY_BYTES, else a limit in bytes).
 */
export function guard(app: App) {
  return new Elysia({ name: 'guard' })
    .use(jsonBodies(app))
    .derive({ as: 'scoped' }, async ({ request }) => ({
      caller: (await authenticate(app, request)) as TenantCaller,
    }))
    .macro('access', (access: Access) => ({
      transform: async ({ caller, params }: { caller?: Caller | null; params?: Params }) => {
        await admit(app, caller ?? null, access);
        for (const name in params) requireStorable(params[name] ?? null);
      },
      // biome-ignore lint/suspicious/noExplicitAny: the framework's type for `detail` has no room for extensions
      detail: { 'x-access': access, security: SECURITY[access] } as any,
    }));
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
const SECURITY: Record<Access, object[]> = {
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

/** Throws 401 or 403 unless the caller may use a route of this access. */
async function admit(app: App, caller: Caller | null, access: Access): Promise<void> {
  if (caller === null) throw unauthorized();
  if (access === 'any') return requireActive(caller);
  if (isAdminKeyAccess(access)) await requireBothCredentials(app, caller, access);
  else if (access === 'tenant') requireTenant(caller);
  else if (access === 'admin') requireTenantAdmin(caller);
  else if (access === 'session') {
    if (caller.kind !== 'admin_session') throw forbidden('this needs an admin session token');
  } else if (caller.kind !== 'super_admin') {
    if (access === 'super' || !caller.scopes?.includes(access)) throw forbidden();
  }
}

/** A suspended tenant's requests get 403, whatever they ask; platform credentials without a tenant have none. */
function requireActive(caller: Caller): void {
  if (caller.tenant !== null) requireTenant(caller);
}
