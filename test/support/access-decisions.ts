// Which credentials may use which route: the expected results of the access matrix, taken from the contract and not
// from the code. A route that is missing here fails the matrix.
// Contract: interface#credentials.

/**
 * Who is admitted. `open`: requests without a credential; `any`: every credential; `tenant`: every credential of a
 * tenant; `read` to `delete`: those with that permission on the entity; `view`: with read permission on the view;
 * `admin`: tenant admins; `person`: tokens of users; `inviter`: tenant admins and the super-admin; `agent`: bots and
 * tenant admins; `session`: admin sessions; `super`: the super-admin; `platform:read` and `tenants:manage`: the
 * super-admin and admin keys with that scope; `both`: the secret and an admin key together; `own`: tested elsewhere.
 */
export type Decision =
  | 'open'
  | 'any'
  | 'tenant'
  | 'read'
  | 'create'
  | 'update'
  | 'delete'
  | 'view'
  | 'admin'
  | 'person'
  | 'inviter'
  | 'agent'
  | 'session'
  | 'super'
  | 'platform:read'
  | 'tenants:manage'
  | 'both'
  | 'own';

const TABLE = `
open            GET /health; GET /ready; GET /swagger; GET /swagger/json; GET /swagger/assets/:file
open            GET /auth/invite/:token; POST /auth/invite/accept; GET /invite/:token
open            POST /api/auth/tenant/login; POST /api/auth/tenant/developer-token; POST /api/auth/tenant/register
open            POST /api/auth/tenant/forgot-password; POST /api/auth/tenant/reset-password
open            GET /app; GET /app/*; GET /
own             GET /metrics; GET /mcp; POST /mcp; DELETE /mcp; GET /api/v1/tenants/:slug/events/stream; OPTIONS /*
own             POST /api/entities/:entityName/records/bulk; POST /api/v1/tenants/:slug/events/tickets; GET /ws
own             POST /api/auth/tenant/logout; POST /api/auth/tenant/refresh

any             GET /api/auth/whoami
person          POST /api/auth/tenant/change-password; GET /api/auth/sessions; DELETE /api/auth/sessions/:id
inviter         POST /api/invitations
session         DELETE /api/admin/sessions/current
super           POST /api/admin/sessions; GET /api/admin/platform/invitations; GET /health/schema; POST /health/schema/fix
platform:read   GET /api/admin/platform/tenants; GET /api/admin/platform/tenants/:slug
platform:read   GET /api/admin/platform/usage
tenants:manage  POST /api/admin/platform/tenants; PATCH /api/admin/platform/tenants/:slug
tenants:manage  DELETE /api/admin/platform/tenants/:slug; GET /api/admin/platform/tenants/:slug/export
tenants:manage  POST /api/admin/platform/tenants/import; POST /api/admin/platform/tenants/:slug/clone
both            GET /api/admin/platform/keys; POST /api/admin/platform/keys; DELETE /api/admin/platform/keys/:id
both            GET /api/admin/platform/keys/:id/audit

tenant          GET /api/entities; GET /api/views; GET /api/changes
read            GET /api/entities/:entityName; GET /api/entities/:entityName/fields
read            GET /api/entities/:entityName/records; GET /api/entities/:entityName/records/:id
read            GET /api/entities/:entityName/records/:id/history; GET /api/entities/:entityName/records/deleted
update          POST /api/entities/:entityName/records/:id/restore
read            GET /api/entities/:entityName/records/aggregate; GET /api/entities/:entityName/records/export
create          POST /api/entities/:entityName/records; POST /api/entities/:entityName/records/import
update          PUT /api/entities/:entityName/records/:id; PATCH /api/entities/:entityName/records/:id
delete          DELETE /api/entities/:entityName/records/:id
view            GET /api/views/:slug/records; GET /api/views/:slug/records/:id
agent           POST /agent-messages; GET /agent-messages; GET /agent-messages/:messageId/read

admin           POST /api/changes/revert; GET /api/tenant/export
admin           GET /api/tenant; PATCH /api/tenant; GET /api/tenant/usage; GET /api/keys; POST /api/keys; DELETE /api/keys/:id
admin           POST /api/entities; PATCH /api/entities/:entityName; DELETE /api/entities/:entityName
admin           POST /api/entities/:entityName/fields; PATCH /api/entities/:entityName/fields/:key
admin           DELETE /api/entities/:entityName/fields/:key; GET /api/entities/:entityName/advice
admin           POST /api/views; PUT /api/views/:slug; DELETE /api/views/:slug
admin           POST /api/access/explain
admin           GET /api/users; POST /api/users; GET /api/users/:id; PATCH /api/users/:id; DELETE /api/users/:id
admin           GET /api/roles; POST /api/roles; GET /api/roles/:name; PATCH /api/roles/:name; DELETE /api/roles/:name
admin           GET /api/invitations; DELETE /api/invitations/:token
admin           GET /api/apis; POST /api/apis; GET /api/apis/:apiId; PATCH /api/apis/:apiId; DELETE /api/apis/:apiId
admin           GET /api/apis/:apiId/keys; POST /api/apis/:apiId/keys; DELETE /api/apis/:apiId/keys/:keyId
admin           GET /api/auth/public-keys; POST /api/auth/public-keys
admin           PATCH /api/auth/public-keys/:id; DELETE /api/auth/public-keys/:id
admin           PATCH /api/auth/bots/:id
admin           GET /api/auth/bots; POST /api/auth/bots/register; POST /api/auth/bots/identify
admin           POST /api/auth/bots/:id/revoke; POST /api/auth/bots/:id/reset-secret
admin           GET /api/rules; POST /api/rules; GET /api/rules/:id; PATCH /api/rules/:id; DELETE /api/rules/:id
admin           POST /api/rules/:id/test
admin           GET /api/webhooks/subscriptions; POST /api/webhooks/subscriptions
admin           PUT /api/webhooks/subscriptions/:id; DELETE /api/webhooks/subscriptions/:id
admin           GET /api/webhooks/subscriptions/:id/deliveries; POST /api/webhooks/subscriptions/:id/test
admin           GET /api/webhooks/subscriptions/:id; GET /api/webhooks/deliveries/:id
admin           POST /api/webhooks/subscriptions/:id/replay
admin           POST /api/webhooks/deliveries/:id/redeliver`;

/** Access by `METHOD /path`. */
export const DECISIONS: ReadonlyMap<string, Decision> = new Map(
  TABLE.split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => {
      const [, decision, routes] = /^(\S+) +(.*)$/.exec(line) as unknown as [string, Decision, string];
      return routes.split('; ').map((route): [string, Decision] => [route, decision]);
    }),
);

/** The columns of the matrix, one credential each; those with `weak_` have no permissions. */
const ADMINS: readonly string[] = ['owner_key', 'admin_user', 'admin_session', 'super_in_tenant'];
export const PUBLIC: readonly string[] = ['public_key', 'legacy_public_key', 'weak_public_key'];
const PERSONS: readonly string[] = ['user', 'admin_user', 'developer', 'weak_user'];
const BOTS: readonly string[] = ['bot', 'weak_bot'];

/** The result of a credential of this kind on a route with this decision: a status, or `in` when it is admitted. */
export function expected(decision: Decision, method: string, kind: string): number | 'in' {
  if (PUBLIC.includes(kind) && method !== 'GET') return 401;
  const isAdmin = ADMINS.includes(kind);
  switch (decision) {
    case 'any':
      return 'in';
    case 'session':
      return kind === 'admin_session' ? 'in' : 403;
    case 'super':
      return kind.startsWith('super') ? 'in' : 403;
    case 'platform:read':
    case 'tenants:manage':
      return kind.startsWith('super') || kind === 'admin_key' ? 'in' : 403;
    case 'both':
      return kind.startsWith('super') || kind === 'admin_key' ? 401 : 403;
    case 'inviter':
      return isAdmin || kind === 'super_admin' ? 'in' : 403;
    default:
      return insideTenant(decision, kind, isAdmin);
  }
}

function insideTenant(decision: Decision, kind: string, isAdmin: boolean): number | 'in' {
  if (kind === 'super_admin') return 400;
  if (kind === 'admin_key') return 403;
  if (decision === 'tenant') return 'in';
  if (decision === 'admin') return isAdmin ? 'in' : 403;
  if (decision === 'person') return PERSONS.includes(kind) ? 'in' : 403;
  if (decision === 'agent') return isAdmin || BOTS.includes(kind) ? 'in' : 403;
  if (decision === 'view' && BOTS.includes(kind)) return 403;
  return kind.startsWith('weak_') ? 403 : 'in';
}
