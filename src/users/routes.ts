// The routes of users and roles, for tenant admins. What the bodies hold is checked by the operations,
// which name every problem at once; the schemas here tell the API document what they accept.
// Contract: decisions#users, decisions#roles.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import { OPERATIONS } from '../access/rights.ts';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import {
  closed,
  closedChange,
  Deleted,
  describe,
  Idle,
  nullable,
  open,
  pageSchema,
  Timestamp,
  Uuid,
} from '../http/openapi.ts';
import { integerParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { addRole, changeRole, getRole, listRoles, removeRole } from './roles.ts';
import { addUser, changeUser, getUser, listUsers, removeUser } from './users.ts';

const Person = { id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() };
const UserSchema = Type.Object({ ...Person, isActive: Type.Boolean(), createdAt: Timestamp, updatedAt: Timestamp });
const InvitedSchema = Type.Object({
  ...Person,
  isActive: Type.Literal(false),
  status: Type.Literal('invited'),
  expiresAt: Timestamp,
});
const UserMembers = {
  email: Type.String({ examples: ['ada@example.com'] }),
  name: Type.String({ examples: ['Ada'] }),
  role: Type.String({ examples: ['member'] }),
  password: Type.Optional(Type.String({ description: 'left out: an invitation is mailed' })),
};
const UserBody = closed({ ...UserMembers, id: Idle, tenantId: Idle, isActive: Idle });
const UserPatch = closedChange({ ...UserMembers, isActive: Type.Boolean() });

const Operations = Type.Array(Type.Union(OPERATIONS.map((operation) => Type.Literal(operation))));
const Rule = Type.Object({
  fields: Type.Optional(Type.Array(Type.String())),
  excludeFields: Type.Optional(Type.Array(Type.String())),
  rowFilter: Type.Optional(Type.String({ examples: ['owner = $currentUser.id'] })),
});
const Confines = {
  permissions: Type.Record(Type.String(), Operations, {
    description: 'operations by entity, *, view:<slug>, view:* or agent:<name>',
    examples: [{ '*': ['read'] }],
  }),
  entities: Type.Record(Type.String(), Rule, { examples: [{}] }),
};
const RoleSchema = Type.Object({
  id: Uuid,
  name: Type.String(),
  description: nullable(Type.String()),
  isSystem: Type.Boolean(),
  ...Confines,
  createdAt: Timestamp,
  updatedAt: Timestamp,
});
const RoleMembers = {
  name: Type.String({ examples: ['clerk'] }),
  description: Type.Optional(nullable(Type.String())),
  permissions: Confines.permissions,
  entities: Type.Optional(Confines.entities),
};

const USERS = 'Users';
const ROLES = 'Roles';
const Anything = t.Object({}, { additionalProperties: true });
const Id = t.Object({ id: t.String() });
const Name = t.Object({ name: t.String() });
const { pageMax, limitMax, limitDefault } = LIMITS.list;
const Paging = open({
  page: Type.Optional(integerParameter(1, pageMax, { default: 1, description: '1-indexed page' })),
  limit: Type.Optional(integerParameter(1, limitMax, { default: limitDefault, description: 'items per page' })),
});

export function userRoutes(app: App) {
  return new Elysia({ name: 'users-and-roles' }).use(usersOnly(app)).use(rolesOnly(app));
}

function usersOnly(app: App) {
  const json = app.config.maxBodyBytes;
  const takes = { access: 'admin', json, body: Anything } as const;
  return new Elysia({ name: 'users' })
    .use(guard(app))
    .get(
      '/api/users',
      async ({ caller, query }) =>
        ok(await listUsers(app, caller, Number(query.page ?? 1), Number(query.limit ?? limitDefault))),
      { access: 'admin', query: Paging, detail: USER.list },
    )
    .post('/api/users', async ({ caller, body }) => created(await addUser(app, caller, body as JsonObject)), {
      ...takes,
      detail: USER.add,
    })
    .get('/api/users/:id', async ({ caller, params }) => ok(await getUser(app, caller, params.id)), {
      access: 'admin',
      params: Id,
      detail: USER.get,
    })
    .patch(
      '/api/users/:id',
      async ({ caller, params, body }) => ok(await changeUser(app, caller, params.id, body as JsonObject)),
      { ...takes, params: Id, detail: USER.change },
    )
    .delete(
      '/api/users/:id',
      async ({ caller, params }) => ok({ id: await removeUser(app, caller, params.id), deleted: true }),
      { access: 'admin', params: Id, detail: USER.remove },
    );
}

const USER = {
  list: describe({
    id: 'listUsers',
    tag: USERS,
    summary: 'List users',
    ok: [200, pageSchema(UserSchema)],
    errors: ['VALIDATION_ERROR'],
  }),
  add: describe({
    id: 'createUser',
    tag: USERS,
    summary: 'Add a user, or invite one',
    body: UserBody,
    ok: [201, Type.Union([UserSchema, InvitedSchema])],
    errors: ['VALIDATION_ERROR', 'CONFLICT'],
  }),
  get: describe({ id: 'getUser', tag: USERS, summary: 'Get a user', ok: [200, UserSchema], errors: ['NOT_FOUND'] }),
  change: describe({
    id: 'updateUser',
    tag: USERS,
    summary: 'Change a user',
    body: UserPatch,
    ok: [200, UserSchema],
    errors: ['VALIDATION_ERROR', 'NOT_FOUND', 'CONFLICT'],
  }),
  remove: describe({
    id: 'deleteUser',
    tag: USERS,
    summary: 'Remove a user',
    ok: [200, Deleted],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
};

function rolesOnly(app: App) {
  const json = app.config.maxBodyBytes;
  const takes = { access: 'admin', json, body: Anything } as const;
  return new Elysia({ name: 'roles' })
    .use(guard(app))
    .get('/api/roles', async ({ caller }) => ok(await listRoles(app, caller)), { access: 'admin', detail: ROLE.list })
    .post('/api/roles', async ({ caller, body }) => created(await addRole(app, caller, body as JsonObject)), {
      ...takes,
      detail: ROLE.add,
    })
    .get('/api/roles/:name', async ({ caller, params }) => ok(await getRole(app, caller, params.name)), {
      access: 'admin',
      params: Name,
      detail: ROLE.get,
    })
    .patch(
      '/api/roles/:name',
      async ({ caller, params, body }) => ok(await changeRole(app, caller, params.name, body as JsonObject)),
      { ...takes, params: Name, detail: ROLE.change },
    )
    .delete(
      '/api/roles/:name',
      async ({ caller, params }) => ok({ id: await removeRole(app, caller, params.name), deleted: true }),
      { access: 'admin', params: Name, detail: ROLE.remove },
    );
}

const ROLE = {
  list: describe({ id: 'listRoles', tag: ROLES, summary: 'List roles', ok: [200, Type.Array(RoleSchema)] }),
  add: describe({
    id: 'createRole',
    tag: ROLES,
    summary: 'Add a role',
    body: closed(RoleMembers),
    ok: [201, RoleSchema],
    errors: ['VALIDATION_ERROR', 'CONFLICT'],
  }),
  get: describe({ id: 'getRole', tag: ROLES, summary: 'Get a role', ok: [200, RoleSchema], errors: ['NOT_FOUND'] }),
  change: describe({
    id: 'updateRole',
    tag: ROLES,
    summary: 'Change a role',
    body: closedChange(RoleMembers),
    ok: [200, RoleSchema],
    errors: ['VALIDATION_ERROR', 'NOT_FOUND', 'CONFLICT'],
  }),
  remove: describe({
    id: 'deleteRole',
    tag: ROLES,
    summary: 'Delete a role',
    description: 'A role that a user, an invitation, a platform API or a key has cannot be deleted.',
    ok: [200, Deleted],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
};
