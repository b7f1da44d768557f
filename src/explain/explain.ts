// Explains why a caller may or may not do something: asks the code that decides, step by step in the order of a request, and
// reports the first step that refuses. This file decides nothing itself.
// Failures: 400 with every problem; a credential or a record of another tenant counts as one that does not exist.
// Contract: decisions#explanations.
import { type Static, Type } from '@sinclair/typebox';
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import { CREDENTIAL_KINDS, type CredentialKind } from '../access/credential-kinds.ts';
import { callerOfRole } from '../access/marks.ts';
import { allows, OPERATIONS, type Operation, restrictionOn } from '../access/rights.ts';
import { rolesOf } from '../access/role-store.ts';
import { admitsMethod } from '../access/route-access.ts';
import type { App } from '../app.ts';
import { type AccessScope, accessScopeOf } from '../entities/access-scope.ts';
import { type Catalog, catalogOf } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import { type Problem, ServiceError } from '../errors.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { check } from '../http/check.ts';
import { closed, nullable, oneOf, Uuid } from '../http/schemas.ts';
import { findRow, isSeenNow, keepRow } from '../records/read/read.ts';
import type { RecordRow } from '../records/row.ts';
import { isUuid } from '../runtime/ids.ts';
import { CHANNELS, type Channel, RULES, type Shown } from './channels.ts';
import * as say from './sentences.ts';
import { type As, findSubject, type Subject } from './subject.ts';

const KINDS = Object.keys(CREDENTIAL_KINDS) as CredentialKind[];
const NAME_MAX = 100;

export const Question = closed({
  as: closed(
    {
      kind: Type.Optional(oneOf(KINDS, { description: 'the kind of a credential, as `whoami` names it' })),
      id: Type.Optional(nullable(Uuid, { description: 'its id; of a user or a bot, the user’s or bot’s' })),
      role: Type.Optional(Type.String({ maxLength: NAME_MAX, description: 'in place of a credential: a role' })),
    },
    { description: 'a credential by kind and id, or a role' },
  ),
  operation: oneOf(OPERATIONS),
  entity: Type.String({ maxLength: NAME_MAX, examples: ['deals'] }),
  record_id: Type.Optional(nullable(Uuid, { description: 'of a record that the operation is for' })),
  channel: Type.Optional(nullable(oneOf(CHANNELS), { description: 'default: rest' })),
});

const Keys = Type.Array(Type.String(), { examples: [['title', 'stage']] });
export const ExplanationSchema = Type.Object(
  {
    allowed: Type.Boolean(),
    decidedBy: Type.Object({
      source: oneOf(['credential', 'channel', 'role', 'api', 'bot'], { examples: ['role'] }),
      name: Type.String({ examples: ['partner'] }),
      text: Type.String({ examples: ['The role partner does not grant delete on deals: add it to its permissions.'] }),
    }),
    fields: Type.Object(
      { visible: Keys, hidden: Keys },
      { description: 'the entity’s own fields; all are hidden where the operation is refused whatever the record' },
    ),
    row: nullable(
      Type.Object({
        matches: Type.Boolean({ description: 'whether the record is one of the rows' }),
        condition: nullable(Type.String({ examples: ['stage != lost'] }), { description: 'the row filter, if any' }),
      }),
      { description: 'null without `record_id`, and for a credential that is not accepted' },
    ),
  },
  { $id: 'Explanation' },
);
export type Explanation = Static<typeof ExplanationSchema>;

/** A validated question, with the things that it names. */
interface Asked {
  app: App;
  subject: Subject;
  operation: Operation;
  channel: Channel;
  catalog: Catalog;
  entity: Entity;
  /** Null if the question is not about a particular record. */
  row: RecordRow | null;
}

/** Whether the subject may perform the operation, and why. */
export async function explain(app: App, caller: TenantCaller, body: Static<typeof Question>): Promise<Explanation> {
  const asked = await read(app, caller, body);
  const admitted = await admittedCaller(asked);
  return 'decidedBy' in admitted ? answer(asked, admitted) : decide(asked, admitted.caller);
}

async function read(app: App, caller: TenantCaller, body: Static<typeof Question>): Promise<Asked> {
  const { tenant } = caller;
  const catalog = await catalogOf(app, tenant);
  // Looked up before validation, so that missing and malformed items are reported together.
  const named = namedIn(body);
  const subject = await findSubject(app, tenant, named.as);
  const entity = catalog.byName.get(named.entity);
  const row = entity && (await findRow(app.db, accessScopeOf(catalog, caller, entity), named.recordId));
  await keepRow(row);
  const {
    operation,
    channel,
    record_id: recordId,
  } = check(Question, body, ({ as, entity: name, record_id: id }) => [
    ...(as === undefined ? [] : asProblems(as, subject)),
    ...(name !== undefined && entity === undefined ? [{ path: 'entity', message: 'is not an entity' }] : []),
    ...(entity !== undefined && typeof id === 'string' && row === undefined
      ? [{ path: 'record_id', message: `is not the id of a record of ${entity.name}` }]
      : []),
  ]);
  return {
    app,
    subject: subject as Subject,
    operation,
    channel: channel ?? 'rest',
    catalog,
    entity: entity as Entity,
    row: typeof recordId === 'string' ? (row as RecordRow) : null,
  };
}

const NO_ID = '00000000-0000-0000-0000-000000000000';

/** What a body names before validation, as far as it can be looked up. */
function namedIn(body: unknown): { as: As; entity: string; recordId: string } {
  const { as, entity, record_id: id } = (body ?? {}) as { as?: As | null; entity?: unknown; record_id?: unknown };
  const { kind, id: asId, role } = as ?? {};
  return {
    as: {
      ...(kind !== undefined && KINDS.includes(kind) ? { kind } : {}),
      ...(typeof asId === 'string' ? { id: asId } : {}),
      ...(typeof role === 'string' ? { role } : {}),
    },
    entity: typeof entity === 'string' ? entity : '',
    recordId: typeof id === 'string' && isUuid(id) ? id : NO_ID,
  };
}

function asProblems({ kind, id, role }: { [Member in keyof As]?: unknown }, subject: Subject | undefined): Problem[] {
  if (role !== undefined) {
    if (kind !== undefined || id !== undefined) return [{ path: 'as', message: 'takes a role, or kind and id' }];
    return subject === undefined ? [{ path: 'as.role', message: 'is no role of this tenant' }] : [];
  }
  if (kind === undefined) return [{ path: 'as.kind', message: 'is required, with an id; or a role' }];
  if (subject !== undefined) return [];
  const message = typeof id === 'string' ? `is not the id of a ${kind} of this tenant` : 'is required with this kind';
  return [{ path: 'as.id', message }];
}

type Refusal = Pick<Explanation, 'decidedBy'>;

/** The caller as the channel admits it, before any entity is considered. */
async function admittedCaller({
  app,
  subject,
  operation,
  channel,
}: Asked): Promise<{ caller: TenantCaller } | Refusal> {
  const { scope, request, onlyReads } = RULES[channel];
  let caller: TenantCaller;
  try {
    caller = requireTenant(await subject.caller(scope));
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { decidedBy: say.notAccepted(subject, error.message) };
  }
  if (onlyReads && operation !== 'read') return { decidedBy: say.onlyReads(channel) };
  if (scope === 'channels:read' && channel !== 'webhook' && !mayFollow(caller)) {
    return { decidedBy: say.lacksScope(subject, scope) };
  }
  if (request !== undefined) {
    const { method, access } = request(operation);
    if (!admitsMethod(caller.kind, method, access)) return { decidedBy: say.publicKeyReads(subject, channel) };
    return { caller };
  }
  // A webhook has a role, or sees everything.
  if (caller.role === null) {
    return caller.isTenantAdmin ? { caller } : { decidedBy: say.noRole(subject) };
  }
  const role = (await rolesOf(app, caller.tenant)).byName.get(caller.role);
  return role === undefined
    ? { decidedBy: say.roleIsGone(caller.role) }
    : { caller: callerOfRole(caller.tenant, role) };
}

async function decide(asked: Asked, caller: TenantCaller): Promise<Explanation> {
  const { app, subject, operation, channel, catalog, entity, row } = asked;
  const condition = restrictionOn(caller.rights, entity.name)?.rowFilter ?? null;
  const holder = say.holderOf(subject, caller, channel);
  const scope = scopeOf(catalog, caller, entity);
  const isOwn = row !== null && scope !== null && (await isSeenNow(app.db, scope, row.id));
  const about = row === null ? null : { matches: isOwn, condition };
  const refused = (decidedBy: Explanation['decidedBy'], fields: readonly Field[] = []): Explanation =>
    answer(asked, { decidedBy, fields, row: about });
  if (!allows(caller.rights, operation, entity.name)) {
    const { scope: needed } = RULES[channel];
    if (caller.scopes?.includes(needed) === false) return refused(say.lacksScope(subject, needed));
    return refused(await say.notGranted(app, holder, caller, operation, entity));
  }
  if (scope === null) return refused(say.unfit(caller, entity, condition));
  const shown: Shown | null = await RULES[channel].shown({ app, caller, entity, scope });
  if (shown === null) return refused(say.showsNothing(channel, entity, condition));
  // A new record is judged by its own values, which are not known here.
  const isRefused = row !== null && operation !== 'create' && !(await shown.admits(row));
  if (isRefused) return refused(say.hidesRecord(caller, entity, condition), shown.fields);
  const decidedBy = say.granted(holder, operation, entity, { condition, shown: shown.fields, isOne: row !== null });
  return answer(asked, { allowed: true, decidedBy, fields: shown.fields, row: about });
}

/** Null if the role's row filter no longer fits the entity. */
function scopeOf(catalog: Catalog, caller: TenantCaller, entity: Entity): AccessScope | null {
  try {
    return accessScopeOf(catalog, caller, entity);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return null;
    throw error;
  }
}

function answer(
  { entity }: Asked,
  given: Refusal & { allowed?: boolean; fields?: readonly Field[]; row?: Explanation['row'] },
): Explanation {
  const { allowed = false, decidedBy, fields = [], row = null } = given;
  const visible = new Set(fields.map(({ key }) => key));
  const keys = entity.fields.map(({ key }) => key);
  return {
    allowed,
    decidedBy,
    fields: { visible: keys.filter((key) => visible.has(key)), hidden: keys.filter((key) => !visible.has(key)) },
    row,
  };
}
