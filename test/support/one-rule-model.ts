// A plain model of what a role may see, for tests that compare every output with it: conditions as functions of a record, and
// the judge's table once more, written from the contract and not from the code.
// Contract: decisions#roles, feed#what-a-follower-sees, feed#transitions.
import type { Json } from './service.ts';

export const SYSTEM = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
/** The fields of each entity. */
export const FIELDS: Record<string, string[]> = {
  companies: ['label', 'country'],
  deals: ['title', 'amount', 'stage', 'secret', 'due', 'company'],
};

/** What a condition may look at besides the record. */
export interface Context {
  /** Of the caller; null for a role without one. */
  userId: string | null;
  /** The time of the event, or of the request: ISO. */
  at: string;
  company(id: string | null): Json | undefined;
}

export interface Condition {
  text: string;
  /** The field that the condition names. */
  field: string;
  holds(record: Json, context: Context): boolean;
}

const has = (value: unknown): boolean => value !== null && value !== undefined;

/** Conditions that may filter requests too. */
export const PLAIN: readonly Condition[] = [
  { text: 'amount > 9', field: 'amount', holds: ({ amount }) => has(amount) && amount > 9 },
  { text: 'NOT stage = lost', field: 'stage', holds: ({ stage }) => stage !== 'lost' },
  { text: 'stage in (open, won)', field: 'stage', holds: ({ stage }) => stage === 'open' || stage === 'won' },
  { text: 'stage != open', field: 'stage', holds: ({ stage }) => stage !== 'open' },
  { text: 'secret startsWith a', field: 'secret', holds: ({ secret }) => has(secret) && secret.startsWith('a') },
  { text: 'NOT secret contains B', field: 'secret', holds: ({ secret }) => !has(secret) || !/b/i.test(secret) },
  { text: 'due > $now', field: 'due', holds: ({ due }, { at }) => has(due) && Date.parse(due) > Date.parse(at) },
  { text: 'title is null', field: 'title', holds: ({ title }) => !has(title) },
  {
    text: 'createdBy = $currentUser.id',
    field: 'createdBy',
    // Without a user it is `createdBy is null`.
    holds: ({ createdBy }, { userId }) => (has(userId) ? createdBy === userId : !has(createdBy)),
  },
];

/** Conditions of roles and views, which may follow relations. */
export const ROW_FILTERS: readonly Condition[] = [
  ...PLAIN,
  {
    text: 'company.country = DE',
    field: 'company',
    holds: ({ company }, context) => context.company(company)?.country === 'DE',
  },
  {
    text: 'amount < 5 OR NOT company.label startsWith a',
    field: 'company',
    holds: ({ amount, company }, context) =>
      (has(amount) && amount < 5) || context.company(company)?.label?.startsWith('a') !== true,
  },
];

export const COMPANY_FILTERS: readonly Condition[] = [
  { text: 'country = DE', field: 'country', holds: ({ country }) => country === 'DE' },
  { text: 'label is not null', field: 'label', holds: ({ label }) => has(label) },
];

/** A role's restriction on an entity. */
export interface EntityRule {
  operations: string[];
  fields?: string[];
  excludeFields?: string[];
  rowFilter?: Condition;
}

export interface RoleRule {
  deals: EntityRule;
  companies: EntityRule;
  /** Whether it may read the view. */
  view: boolean;
}

export type EntityName = 'deals' | 'companies';

/** What a request selects. */
export interface Selected {
  entities?: EntityName[];
  events?: string[];
  filters?: Condition;
  view?: Condition;
  transitions: boolean;
}

/** A change with the records before and after it, as the owner sees them. */
export interface Change {
  id: string;
  event: string;
  entity: EntityName;
  recordId: string;
  at: string;
  before: Json | null;
  after: Json | null;
}

export function isVisible({ fields, excludeFields }: EntityRule, key: string): boolean {
  if (SYSTEM.includes(key)) return true;
  return fields?.includes(key) !== false && excludeFields?.includes(key) !== true;
}

export function projected(rule: EntityRule, record: Json): Json {
  return Object.fromEntries(Object.entries(record).filter(([key]) => isVisible(rule, key)));
}

/** Whether a record is among those that the selection shows to the role. */
export function shows(
  role: RoleRule,
  { view, filters }: Pick<Selected, 'view' | 'filters'>,
  entity: EntityName,
  record: Json,
  context: Context,
): boolean {
  const rule = role[entity];
  const mayRead = view === undefined ? rule.operations.includes('read') : role.view && entity === 'deals';
  const conditions = [rule.rowFilter, view, filters];
  return mayRead && conditions.every((condition) => condition === undefined || condition.holds(record, context));
}

/** What a follower with the role is shown of a change; null when it is nothing to it. */
export function judged(role: RoleRule, selected: Selected, change: Change, context: Context): Json | null {
  const { entity, event, before, after, recordId: id } = change;
  if (selected.entities?.includes(entity) === false) return null;
  const isSeen = (record: Json | null): boolean => record !== null && shows(role, selected, entity, record, context);
  const [was, is] = [isSeen(before), isSeen(after)];
  let type: string | null = null;
  if (event === 'record.created') type = is ? event : null;
  else if (event === 'record.deleted') type = was ? event : null;
  else if (!selected.transitions) type = is ? event : null;
  else if (is) type = was ? event : 'record.entered';
  else if (was) type = 'record.left';
  if (type === null || selected.events?.includes(type) === false) return null;
  const isGone = type === 'record.deleted' || type === 'record.left';
  return { event: type, entity, record_id: id, data: isGone ? { id } : projected(role[entity], after) };
}
