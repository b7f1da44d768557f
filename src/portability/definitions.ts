// The lines of a document before its records. Each is validated as the API validates such a definition, and stored with its id
// and its times. A stored definition may have become outdated, such as a role that names a deleted entity: the document
// contains it as stored, and the import accepts it.
// Failures: 400 with every problem of a line.
// Contract: portability#import.
import { type TProperties, Type } from '@sinclair/typebox';
import { systemCaller, type TenantCaller } from '../access/caller.ts';
import { isAdminRole } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { validationNames } from '../entities/access-scope.ts';
import { type Catalog, loadCatalog } from '../entities/catalog.ts';
import { requireDefinitionsFit } from '../entities/definition-size.ts';
import type { Entity } from '../entities/field.ts';
import type { Problem } from '../errors.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import { expressionProblems } from '../expression/parse.ts';
import { check, requireFits, type Valid } from '../http/check.ts';
import { closed, Ignored, nullable, Timestamp, Uuid } from '../http/schemas.ts';
import { PlatformApiDefinition } from '../keys/platform-apis.ts';
import { LIMITS } from '../limits.ts';
import { NewRule } from '../rules/definition.ts';
import { isUuid } from '../runtime/ids.ts';
import { jsonb, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { Email } from '../users/person.ts';
import { NewRole, roleProblems } from '../users/role-input.ts';
import { dslProblems } from '../views/dsl.ts';
import { NewView } from '../views/view.ts';
import { NewSubscription } from '../webhooks/subscriptions/shapes.ts';
import { urlFault } from '../webhooks/transport/receiver.ts';
import { Allowance } from './allowance.ts';
import type { ArrivingTenant } from './arriving.ts';
import type { Kind } from './document.ts';
import type { IdMap } from './new-ids.ts';
import { timeProblems } from './times.ts';

/** The members of a line that a request does not have. */
const STORED = { type: Ignored, id: Uuid, createdAt: Timestamp, updatedAt: Timestamp };
const lineSchema = <T extends TProperties>(members: T) => closed({ ...members, ...STORED });

const RoleLine = lineSchema({ ...NewRole.properties, isSystem: Type.Boolean() });
const UserLine = lineSchema({
  email: Email,
  name: Type.String({ maxLength: LIMITS.tenant.nameMax }),
  role: Type.String(),
  isActive: Type.Boolean(),
  passwordHash: Type.Optional(
    nullable(Type.String({ pattern: '^scrypt\\$16384\\$8\\$1\\$[A-Za-z0-9+/]{22}==\\$[A-Za-z0-9+/]{43}=$' }), {
      error: 'must be a hash as this service exports it, or null',
    }),
  ),
});
const ViewLine = lineSchema(NewView.properties);
const RuleLine = lineSchema(NewRule.properties);
const ApiLine = lineSchema(PlatformApiDefinition.properties);
const { secret: _, ...SubscriptionMembers } = NewSubscription.properties;
const SubscriptionLine = closed({
  ...SubscriptionMembers,
  type: Ignored,
  id: Uuid,
  disabled_reason: Ignored,
  created_at: Timestamp,
  updated_at: Timestamp,
});

const SYSTEM_ROLES = ['owner', 'admin', 'member', 'viewer'];

export class Definitions {
  readonly #caller: TenantCaller;
  readonly #roles = new Set(SYSTEM_ROLES);
  readonly #allowed = new Allowance();

  private constructor(
    private readonly app: App,
    private readonly arriving: ArrivingTenant,
    private readonly ids: IdMap,
    readonly catalog: Catalog,
  ) {
    this.#caller = systemCaller(arriving.tenant, { triggeredBy: 'system' });
  }

  /** Requires that the tenant's entities are stored. */
  static async of(app: App, arriving: ArrivingTenant, ids: IdMap): Promise<Definitions> {
    return new Definitions(app, arriving, ids, await loadCatalog(app.db, arriving.tenant));
  }

  /** Called after the last rule. 400 if the fields and rules together exceed a tenant's limit. */
  async end(): Promise<void> {
    await this.app.db.slow.begin((tx) => requireDefinitionsFit(tx, this.arriving.tenant.schema, 0));
  }

  /** Stores a line of this kind. */
  async add(kind: Exclude<Kind, 'entity' | 'record'>, line: number, members: JsonObject): Promise<void> {
    if (kind === 'role') return this.#role(members);
    if (kind === 'user') return this.#user(members);
    if (kind === 'view') return this.#view(line, members);
    if (kind === 'rule') return this.#rule(members);
    if (kind === 'api') return this.#api(line, members);
    return this.#subscription(line, members);
  }

  async #role(members: JsonObject): Promise<void> {
    const role = check(RoleLine, members, (valid) => [
      ...timeProblems(valid),
      ...roleProblems(this.#known(valid), this.catalog, this.#caller),
    ]);
    requireDefinitionFits(members, 'a role');
    const { name, description = null, permissions, entities = {}, createdAt, updatedAt } = role;
    const isSystem = SYSTEM_ROLES.includes(name);
    this.#allowed.once('role', 'name', name);
    this.#allowed.text('roles', [permissions, entities]);
    if (!isSystem) this.#allowed.one('roles');
    this.#roles.add(name);
    const granted = isAdminRole(name) ? sql`r.permissions` : sql`excluded.permissions`;
    await this.app.db.slow.rows(sql`
      insert into ${this.arriving.own('roles')} as r
        (id, name, description, is_system, permissions, entities, created_at, updated_at)
      values (${this.ids(role.id)}::uuid, ${name}, ${description}, ${isSystem}::boolean, ${jsonb(permissions)},
        ${jsonb(isAdminRole(name) ? {} : entities)}, ${createdAt}::timestamptz, ${updatedAt}::timestamptz)
      on conflict (name) do update
      set id = excluded.id, description = excluded.description, permissions = ${granted}, entities = excluded.entities,
        created_at = excluded.created_at, updated_at = excluded.updated_at`);
  }

  /** A role may keep restrictions and grants on deleted entities, which have no effect, and go on hiding the key of a dropped field. */
  #known({ permissions = {}, entities = {} }: Pick<Valid<NewRole>, 'permissions' | 'entities'>) {
    const isKnown = ([name]: [string, unknown]): boolean => this.catalog.byName.has(name);
    const restrictions = Object.entries(entities).map(([name, restriction]) => {
      const fields = this.catalog.byName.get(name)?.byKey;
      const excludeFields = restriction?.excludeFields?.filter((key) => key === undefined || fields?.has(key));
      return [name, { ...restriction, excludeFields }] as const;
    });
    return {
      permissions: Object.fromEntries(Object.entries(permissions).filter(isKnown)),
      entities: Object.fromEntries(restrictions.filter(([name]) => this.catalog.byName.has(name))),
    };
  }

  async #user(members: JsonObject): Promise<void> {
    const user = check(UserLine, members, (valid) => [
      ...timeProblems(valid),
      ...(valid.role === undefined || this.#roles.has(valid.role) ? [] : [{ path: 'role', message: 'is not a role' }]),
    ]);
    const { email, name, role, isActive, passwordHash = null, createdAt, updatedAt } = user;
    if (isActive) this.#allowed.one('users');
    const id = this.ids(user.id);
    const taken = await this.app.db.slow.first<{ email: string }>(sql`
      with own as (
        insert into ${this.arriving.own('users')}
          (id, email, name, role, is_active, password_hash, created_at, updated_at)
        values (${id}::uuid, ${email}, ${name}, ${role}, ${isActive}::boolean, ${passwordHash},
          ${createdAt}::timestamptz, ${updatedAt}::timestamptz)
        on conflict do nothing
        returning id
      )
      select 'taken' as email where not exists (select from own)`);
    if (taken !== undefined) this.#allowed.repeated('email', 'or its id is that of another user');
  }

  async #view(line: number, members: JsonObject): Promise<void> {
    const view = check(ViewLine, members, (valid) => [
      ...timeProblems(valid),
      ...this.#entityProblems('entitySlug', valid.entitySlug),
      ...this.#ofEntity(valid.entitySlug, (entity) => dslProblems(valid.filterDsl, this.catalog, this.#caller, entity)),
    ]);
    requireDefinitionFits(members, 'a view');
    this.#allowed.once('view', 'slug', view.slug);
    this.#allowed.once('view', 'id', view.id.toLowerCase());
    this.#allowed.one('views');
    this.#allowed.text('views', view.filterDsl ?? {});
    await this.arriving.keep(line, 'views', {
      ...this.#row(view),
      slug: view.slug,
      entity_id: this.#entity(view.entitySlug).id,
      name: view.name,
      description: view.description ?? null,
      filter_dsl: { validate: view.filterDsl?.validate ?? [] },
    });
  }

  async #rule(members: JsonObject): Promise<void> {
    const rule = check(RuleLine, members, (valid) => [
      ...timeProblems(valid),
      ...this.#entityProblems('entity', valid.entity),
      ...this.#ofEntity(valid.entity, (entity) => this.#conditionProblems(entity, valid.condition)),
    ]);
    requireDefinitionFits(members, 'a rule');
    const { name, trigger, condition = null, action, priority = 0, isActive = true, createdAt, updatedAt } = rule;
    const entity = this.#entity(rule.entity);
    this.#allowed.once('rule', 'id', rule.id.toLowerCase());
    this.#allowed.rule(entity.name);
    await this.app.db.slow.rows(sql`
      insert into ${this.arriving.own('business_rules')}
        (id, name, entity_id, trigger, condition, action, priority, is_active, created_at, updated_at)
      values (${this.ids(rule.id)}::uuid, ${name}, ${entity.id}::uuid, ${trigger}, ${condition},
        ${jsonb(this.#withOwnIds(entity, action))}, ${priority}::int, ${isActive}::boolean, ${createdAt}::timestamptz,
        ${updatedAt}::timestamptz)`);
  }

  #conditionProblems(entity: Entity, condition: string | null | undefined): readonly Problem[] {
    if (condition == null) return [];
    const names = { ...validationNames(this.catalog, this.#caller, entity), allowOld: true };
    return expressionProblems(condition, names, 'condition');
  }

  /** The action, with the ids in its relations mapped to ids of this tenant. */
  #withOwnIds(entity: Entity, action: NewRule['action']): NewRule['action'] {
    if (!('values' in action)) return action;
    const target = action.type === 'create_record' ? this.catalog.byName.get(action.entity) : entity;
    const own = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(own);
      return typeof value === 'string' && isUuid(value) ? this.ids(value) : value;
    };
    const values = Object.entries(action.values).map(([key, value]) => {
      const isRelation = (target?.byKey.get(key)?.targetId ?? null) !== null;
      return [key, isRelation ? own(value) : value];
    });
    return { ...action, values: Object.fromEntries(values) };
  }

  async #api(line: number, members: JsonObject): Promise<void> {
    const api = check(ApiLine, members, timeProblems);
    requireDefinitionFits(members, 'a platform API');
    this.#allowed.once('api', 'slug', api.slug);
    this.#allowed.once('api', 'id', api.id.toLowerCase());
    this.#allowed.one('platformApis');
    const { name, slug, roles, permissions } = api;
    await this.arriving.keep(line, 'apis', { ...this.#row(api), name, slug, roles, permissions });
  }

  /** Stored inactive and without a secret. An id that another tenant uses is replaced: ids are unique in an installation. */
  async #subscription(line: number, members: JsonObject): Promise<void> {
    const given = check(SubscriptionLine, members, (valid) => [
      ...timeProblems({ created_at: valid.created_at, updated_at: valid.updated_at }),
      ...(valid.entity_name === '*' ? [] : this.#entityProblems('entity_name', valid.entity_name)),
      ...urlProblems(valid.url),
    ]);
    requireDefinitionFits(members, 'a webhook subscription');
    const entity = given.entity_name === '*' ? null : this.#entity(given.entity_name);
    const entityId = entity?.id ?? EVERY_ENTITY;
    this.#allowed.once('subscription', 'id', given.id.toLowerCase());
    this.#allowed.once('subscription', 'url', JSON.stringify([entityId, given.url, given.event_types]));
    this.#allowed.one('subscriptions');
    const { event_types, url, description = null, role = null, filters = null, fields = null, include = null } = given;
    await this.arriving.keep(line, 'webhook_subscriptions', {
      id: this.ids(given.id),
      tenant_id: this.arriving.tenant.id,
      entity_id: entityId,
      entity: given.entity_name,
      event_types,
      url,
      description,
      is_active: false,
      role,
      filters,
      field_ids: fields?.flatMap((key) => entity?.byKey.get(key)?.id ?? []) ?? null,
      include,
      created_at: given.created_at,
      updated_at: given.updated_at,
    });
  }

  #row({ id, createdAt, updatedAt }: { id: string; createdAt: string; updatedAt: string }) {
    return { id: this.ids(id), tenant_id: this.arriving.tenant.id, created_at: createdAt, updated_at: updatedAt };
  }

  #entityProblems(path: string, name: string | undefined): Problem[] {
    return name === undefined || this.catalog.byName.has(name)
      ? []
      : [{ path, message: 'is not an entity of the document' }];
  }

  #ofEntity<T>(name: string | undefined, find: (entity: Entity) => readonly T[]): readonly T[] {
    const entity = this.catalog.byName.get(name ?? '');
    return entity === undefined ? [] : find(entity);
  }

  #entity(name: string): Entity {
    return this.catalog.byName.get(name) as Entity;
  }
}

/** 400 if a definition is larger than the API accepts. The line's id and times do not count. */
function requireDefinitionFits(members: JsonObject, what: string): void {
  const own = Object.entries(members).filter(([name, value]) => value !== null && !NOT_GIVEN.has(name));
  requireFits(Object.fromEntries(own), what, LIMITS.definitionBytesMax);
}

const NOT_GIVEN = new Set(['type', 'id', 'isSystem', 'createdAt', 'updatedAt', 'created_at', 'updated_at']);

function urlProblems(url: string | undefined): Problem[] {
  const fault = url === undefined ? undefined : urlFault(url);
  return fault === undefined ? [] : [{ path: 'url', message: fault }];
}
