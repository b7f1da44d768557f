// The audience of a subscription narrows what it receives: a role, a condition, and a list of fields. The role's current rights decide
// which rows and fields are shown. One judge serves all uses: when the deliveries of a change are made, and before each attempt. It
// uses the code that decides over REST (access-scope, rights). A change is judged by the record after it, a deletion by the record
// before it, with the time of the change as `$now`. A role's condition that follows a relation reads the target as it is at that
// moment.
// Contract: decisions#webhooks-for-others.
import type { TenantCaller } from '../access/caller.ts';
import { allows, FULL_RIGHTS } from '../access/rights.ts';
import { isAdminRole, rightsOf, rolesOf, type TenantRoles } from '../access/role-store.ts';
import type { App } from '../app.ts';
import { type AccessScope, accessScopeOf } from '../entities/access-scope.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import { invalidField, type Problem, ServiceError } from '../errors.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import type { RecordRow } from '../events/event.ts';
import { type Expression, relationKeys } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { keyOfRights } from '../http/changes-cursor.ts';
import { Evaluator } from '../records/read/evaluator.ts';
import type { Tenant } from '../tenants/tenants.ts';

/** The members of a subscription that narrow it; a null member does not narrow. */
export interface Audience {
  role: string | null;
  filters: string | null;
  field_ids: readonly string[] | null;
}

/** A change that has been committed. */
export interface JudgedChange {
  row: RecordRow;
  /** ISO 8601. */
  at: string;
  /** The deletion of a record without values: no condition can be judged, and only roles that may see all records are shown it. */
  isErased?: boolean;
}

/** A caller with the rights of a role and without an identity. */
function callerOf(
  tenant: Tenant,
  name: string | null,
  rights: TenantCaller['rights'],
  isTenantAdmin: boolean,
): TenantCaller {
  const identity = { kind: 'user', id: null, email: null, asRole: name ?? '' } as const;
  return { ...identity, tenant, role: name, rights, isTenantAdmin, triggeredBy: 'system' };
}

/** Values derived from the definitions and roles only, and kept as long as those are. */
interface Derived {
  callers: Map<string | null, TenantCaller>;
  /** By role, entity and, where it matters, time; null when the role's condition no longer fits the entity. */
  scopes: Map<string, AccessScope | null>;
  conditions: Map<string, Expression | null>;
}

const derivedFrom = new WeakMap<Catalog, WeakMap<TenantRoles, Derived>>();

function derivedOf(catalog: Catalog, roles: TenantRoles): Derived {
  const byRoles = derivedFrom.get(catalog) ?? new WeakMap<TenantRoles, Derived>();
  derivedFrom.set(catalog, byRoles);
  const derived = byRoles.get(roles) ?? { callers: new Map(), scopes: new Map(), conditions: new Map() };
  byRoles.set(roles, derived);
  return derived;
}

/** Judges changes for subscriptions, with the definitions and rights at the time it was created. Create one for each batch. */
export class Judge {
  readonly #evaluator: Evaluator;
  readonly #derived: Derived;

  private constructor(
    app: App,
    private readonly tenant: Tenant,
    readonly catalog: Catalog,
    private readonly roles: TenantRoles,
  ) {
    this.#evaluator = new Evaluator(app.db, catalog);
    this.#derived = derivedOf(catalog, roles);
  }

  static async of(app: App, tenant: Tenant): Promise<Judge> {
    return new Judge(app, tenant, await catalogOf(app, tenant), await rolesOf(app, tenant));
  }

  /** A key of the role's rights: a cursor that carries it works for any caller with these rights. */
  rightsKeyOf({ role }: Audience): string {
    return keyOfRights(this.#callerOf(role).rights);
  }

  /** The fields that the subscription shows of the entity; null when its role may not read it. */
  fieldsOf({ role, field_ids: listed }: Audience, entity: Entity): readonly Field[] | null {
    const caller = this.#callerOf(role);
    if (!allows(caller.rights, 'read', entity.name)) return null;
    const scope = this.#scopeOf(role, entity, new Date());
    if (scope === null) return null;
    return listed === null ? scope.fields : scope.fields.filter(({ id }) => listed.includes(id));
  }

  /**
   * Why changes cannot be judged for the subscription: a condition no longer fits the definitions. Null when they can be judged. Checks one
   * entity, or all entities of the subscription.
   */
  faultOf(audience: Audience & { entity_id: string }, entity?: Entity, now = ANY_TIME): string | null {
    const { role, filters, entity_id: ownId } = audience;
    if (role !== null && !this.roles.byName.has(role)) return `there is no role ${role} any more`;
    if (entity === undefined) {
      const own = this.catalog.byId.get(ownId);
      const all = ownId === EVERY_ENTITY ? [...this.catalog.byId.values()] : own === undefined ? [] : [own];
      for (const one of all) {
        const fault = this.faultOf(audience, one, now);
        if (fault !== null) return fault;
      }
      return null;
    }
    if (!allows(this.#callerOf(role).rights, 'read', entity.name)) return null;
    if (this.#scopeOf(role, entity, now) === null) return `the row filter of ${role} no longer fits ${entity.name}`;
    if (filters === null || this.#conditionOf(audience, filters, entity, now) !== null) return null;
    return `the filters no longer fit what the subscription may see of ${entity.name}`;
  }

  /** Whether the subscription's role may see the change with its current rights. */
  async isVisible({ role }: Audience, entity: Entity, { row, at, isErased = false }: JudgedChange): Promise<boolean> {
    if (role === null) return true;
    if (!allows(this.#callerOf(role).rights, 'read', entity.name)) return false;
    const scope = this.#scopeOf(role, entity, new Date(at));
    if (scope === null) return false;
    if (isErased) return scope.rowFilter === null;
    return scope.rowFilter === null || this.#evaluator.met(entity, scope.rowFilter, row, at);
  }

  /** Whether the change is for the subscription. */
  async matches(audience: Audience, entity: Entity, change: JudgedChange): Promise<boolean> {
    if (!(await this.isVisible(audience, entity, change))) return false;
    if (audience.filters === null || change.isErased === true) return true;
    const condition = this.#conditionOf(audience, audience.filters, entity, new Date(change.at));
    return condition !== null && this.#evaluator.met(entity, condition, change.row, change.at);
  }

  #callerOf(role: string | null): TenantCaller {
    const known = this.#derived.callers.get(role);
    if (known !== undefined) return known;
    const found = role === null ? undefined : this.roles.byName.get(role);
    const isAdmin = role === null || (found !== undefined && isAdminRole(role));
    const caller = callerOf(this.tenant, role, role === null ? FULL_RIGHTS : rightsOf(found), isAdmin);
    this.#derived.callers.set(role, caller);
    return caller;
  }

  #scopeOf(role: string | null, entity: Entity, now: Date): AccessScope | null {
    const caller = this.#callerOf(role);
    const usesNow = caller.rights.restrictions[entity.name]?.rowFilter?.includes('$') === true;
    const key = `${role} ${entity.id}${usesNow ? ` ${now.getTime()}` : ''}`;
    return remembered(this.#derived.scopes, key, () => accessScopeOf(this.catalog, caller, entity, now));
  }

  #conditionOf({ role }: Audience, text: string, entity: Entity, now: Date): Expression | null {
    const key = `${role} ${entity.id} ${text}${text.includes('$') ? ` ${now.getTime()}` : ''}`;
    return remembered(this.#derived.conditions, key, () => {
      const scope = accessScopeOf(this.catalog, this.#callerOf(role), entity, now);
      return ownCondition(text, scope);
    });
  }
}

/** Whether a condition fits does not depend on the time. */
const ANY_TIME = new Date(0);
const KEPT = 5_000;

/** A condition that no longer fits the definitions shows nothing. */
function remembered<V>(known: Map<string, V | null>, key: string, make: () => V): V | null {
  const found = known.get(key);
  if (found !== undefined) return found;
  let made: V | null = null;
  try {
    made = make();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
  }
  if (known.size >= KEPT) known.clear();
  known.set(key, made);
  return made;
}

const PATH = 'filters';

/** A condition on the record only. 400 when it follows a relation. */
function ownCondition(text: string, scope: AccessScope): Expression {
  const expression = parseExpression(text, scope.names, PATH);
  const [relation] = relationKeys(expression);
  if (relation === undefined) return expression;
  throw invalidField(
    PATH,
    `must not follow a relation (${relation}): a change is judged by the record's own values at the time`,
  );
}

/** The input for a subscription's audience; an undefined member stays as it is. */
export interface AudienceInput {
  role?: string | null | undefined;
  filters?: string | null | undefined;
  fields?: readonly string[] | null | undefined;
}

/** The audience with the changes of the input, as it is stored, and the problems of it. `entity` is null for all entities. */
export function audienceFrom(
  { tenant, catalog, roles }: { tenant: Tenant; catalog: Catalog; roles: TenantRoles },
  entity: Entity | null,
  input: AudienceInput,
  before: Audience,
): { audience: Audience; problems: Problem[] } {
  const role = input.role === undefined ? before.role : input.role;
  const filters = input.filters === undefined ? before.filters : input.filters || null;
  const problems: Problem[] = [];
  const found = role === null ? undefined : roles.byName.get(role);
  if (role !== null && found === undefined) problems.push({ path: 'role', message: 'is no role of this tenant' });
  const audience: Audience = { role, filters, field_ids: input.fields === undefined ? before.field_ids : null };
  if (entity === null) {
    if (filters !== null) problems.push({ path: PATH, message: 'needs exactly one entity' });
    if (input.fields != null) problems.push({ path: 'fields', message: 'needs exactly one entity' });
    return { audience, problems };
  }
  if (role !== null && found === undefined) return { audience, problems };
  const caller = callerOf(tenant, role, role === null ? FULL_RIGHTS : rightsOf(found), role === null);
  const scope = accessScopeOf(catalog, caller, entity);
  if (filters !== null) problems.push(...problemsOf(() => ownCondition(filters, scope)));
  if (input.fields != null) {
    const byKey = new Map(scope.fields.map((field) => [field.key, field.id]));
    input.fields.forEach((key, i) => {
      if (!byKey.has(key))
        problems.push({ path: `fields.${i}`, message: `${key} is no field that the subscription may show` });
    });
    audience.field_ids = input.fields.flatMap((key) => byKey.get(key) ?? []);
  }
  return { audience, problems };
}

function problemsOf(run: () => unknown): readonly Problem[] {
  try {
    run();
    return [];
  } catch (error) {
    if (error instanceof ServiceError && error.details !== undefined) return error.details as Problem[];
    throw error;
  }
}
