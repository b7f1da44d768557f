// The routes of users and roles, and of what a role or credential may do; all for tenant admins.
// Failures: 400 with every problem, 404, 409.
// Contract: decisions#users, decisions#roles.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { explainRoutes } from '../explain/routes.ts';
import { okList } from '../http/bounded-response.ts';
import { DRY_RUN, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted, pageSchema } from '../http/schemas.ts';
import { NewUser, UserChange } from './person.ts';
import { NewRole, RoleChange, RoleSchema } from './role-input.ts';
import { addRole, changeRole, getRole, listRoles, removeRole } from './roles.ts';
import {
  addUser,
  changeUser,
  getUser,
  InvitedUserSchema,
  listUsers,
  removeUser,
  UserFilter,
  UserSchema,
} from './users.ts';

const user = { tag: 'Users', access: 'admin' } as const;
const LIST_USERS = route({
  ...user,
  id: 'listUsers',
  summary: 'List users',
  query: UserFilter,
  ok: [200, pageSchema(UserSchema)],
});
const ADD_USER = route({
  ...user,
  id: 'createUser',
  summary: 'Add or invite a user',
  body: NewUser,
  ok: [201, Type.Union([UserSchema, InvitedUserSchema])],
  errors: ['CONFLICT'],
});
const GET_USER = route({ ...user, id: 'getUser', summary: 'Get a user', ok: [200, UserSchema] });
const CHANGE_USER = route({
  ...user,
  id: 'updateUser',
  summary: 'Change a user',
  body: UserChange,
  example: { name: 'Ada Lovelace', role: 'member', isActive: true },
  ok: [200, UserSchema],
  errors: ['CONFLICT'],
});
const REMOVE_USER = route({
  ...user,
  id: 'deleteUser',
  summary: 'Remove a user',
  ok: [200, Deleted],
  errors: ['CONFLICT'],
});

const role = { tag: 'Roles', access: 'admin' } as const;
const LIST_ROLES = route({ ...role, id: 'listRoles', summary: 'List roles', ok: [200, Type.Array(RoleSchema)] });
const ADD_ROLE = route({
  ...role,
  id: 'createRole',
  summary: 'Add a role',
  query: parameters(DRY_RUN),
  body: NewRole,
  example: {
    name: 'clerk',
    description: 'Sees and changes deals, but no notes',
    permissions: { companies: ['read'], deals: ['read', 'update'], 'view:won-deals': ['read'] },
    entities: { deals: { excludeFields: ['notes'], rowFilter: 'stage != lost' } },
  },
  ok: [201, RoleSchema],
  errors: ['CONFLICT'],
});
const GET_ROLE = route({
  ...role,
  id: 'getRole',
  summary: 'Get a role',
  pathExamples: { name: 'partner' },
  ok: [200, RoleSchema],
});
const CHANGE_ROLE = route({
  ...role,
  id: 'updateRole',
  summary: 'Change a role',
  query: parameters(DRY_RUN),
  body: RoleChange,
  example: {
    description: 'Reads companies, and the deals that are open',
    entities: { companies: { excludeFields: ['taxNumber', 'rating'] } },
  },
  pathExamples: { name: 'partner' },
  ok: [200, RoleSchema],
  errors: ['CONFLICT'],
});
const REMOVE_ROLE = route({
  ...role,
  id: 'deleteRole',
  summary: 'Delete a role',
  description:
    'A role in use by a user, an invitation, a platform API, a key or a webhook subscription cannot be deleted.',
  query: parameters(DRY_RUN),
  ok: [200, Deleted],
  errors: ['CONFLICT'],
});

const USER = '/api/users/:id';
const ROLE = '/api/roles/:name';

export function userRoutes(app: App) {
  return new Elysia({ name: 'users-and-roles' })
    .use(guard(app))
    .use(explainRoutes(app))
    .get('/api/users', async ({ caller, query }) => ok(await listUsers(app, caller, query)), LIST_USERS)
    .post('/api/users', async ({ caller, body }) => created(await addUser(app, caller, body)), ADD_USER)
    .get(USER, async ({ caller, params }) => ok(await getUser(app, caller, params.id)), GET_USER)
    .patch(USER, async ({ caller, params, body }) => ok(await changeUser(app, caller, params.id, body)), CHANGE_USER)
    .delete(
      USER,
      async ({ caller, params }) => ok({ id: await removeUser(app, caller, params.id), deleted: true }),
      REMOVE_USER,
    )
    .get('/api/roles', async ({ caller }) => okList(await listRoles(app, caller)), LIST_ROLES)
    .post(
      '/api/roles',
      async ({ caller, query, body }) =>
        runOrTry(app, { caller, query }, async (used) => created(await addRole(used, caller, body))),
      ADD_ROLE,
    )
    .get(ROLE, async ({ caller, params }) => ok(await getRole(app, caller, params.name)), GET_ROLE)
    .patch(
      ROLE,
      async ({ caller, params, query, body }) =>
        runOrTry(app, { caller, query }, async (used) => ok(await changeRole(used, caller, params.name, body))),
      CHANGE_ROLE,
    )
    .delete(
      ROLE,
      async ({ caller, params, query }) =>
        runOrTry(app, { caller, query }, async (used) =>
          ok({ id: await removeRole(used, caller, params.name), deleted: true }),
        ),
      REMOVE_ROLE,
    );
}
