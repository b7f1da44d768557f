// Values for members and parameters whose names say what they take: an entity, a cursor, a condition, a list of fields.
// A schema says only that they are texts. Some of them are wrong.
// Values are plain texts, not JSON.
import type { Names } from './names.ts';
import type { Random } from './random.ts';

const FIELDS =
  'title country employees rating tags founded address stage amount closesAt company contacts notes id createdAt updatedAt createdBy company.title hidden nothing'.split(
    ' ',
  );
const OPERATORS = ['=', '!=', '>', '<=', 'CONTAINS', 'STARTS_WITH', 'IN', 'NOT IN', 'IS EMPTY', 'IS NOT EMPTY', 'LIKE'];
const LITERALS = '"a" 1 true ("a","b") "2026-01-01" -1e400 " won DE $currentUser.id $now "2026-01-31T09:00:00Z"'.split(
  ' ',
);
const EVENTS = ['record.created', 'record.updated', 'record.deleted', 'rule.executed', 'record.entered', 'nothing'];
const DATES = ['2026-01-01', '2026-12-31T00:00:00.000Z', '1970-01-01', '9999-12-31', '2026-02-30', 'now', 'earliest'];
const PASSWORD = 'correct horse battery';

/** A condition of the expression language, mostly a valid one. */
export function condition(random: Random, names: Names): string {
  if (random.chance(0.4)) {
    return random.pick([
      'stage = won',
      'country = DE AND employees > 5',
      'title CONTAINS "a" OR NOT title IS EMPTY',
      'company.country = DE',
      'amount >= 10 AND createdAt < $now',
      'createdBy = $currentUser.id',
      'tags CONTAINS public',
    ]);
  }
  const term = () => `${field(random, names)} ${random.pick(OPERATORS)} ${random.pick(LITERALS)}`;
  const terms = Array.from({ length: 1 + random.below(random.chance(0.1) ? 60 : 5) }, term);
  return terms.join(random.pick([' AND ', ' OR ', ' and not ', ' ']));
}

/** Of the demo, or one that a request has made. */
const field = (random: Random, names: Names): string =>
  random.chance(0.2) ? names.word(random, 'fields') : random.pick(FIELDS);

const list = (random: Random, from: readonly string[]): string =>
  Array.from({ length: 1 + random.below(3) }, () => random.pick(from)).join(',');

type Hint = (random: Random, names: Names) => string;

const entity: Hint = (random, names) => names.word(random, 'entities');
const role: Hint = (random, names) => (random.chance(0.3) ? 'viewer' : names.word(random, 'roles'));
const view: Hint = (random, names) => names.word(random, 'views');
const record: Hint = (random, names) => names.word(random, 'records');
const cursor: Hint = (random, names) => (random.chance(0.2) ? random.pick(DATES) : names.word(random, 'cursor'));
const date: Hint = (random) => random.pick(DATES);

const HINTS: Record<string, Hint> = {
  entity,
  entities: (random, names) => list(random, [entity(random, names), entity(random, names), 'nothing']),
  entity_name: entity,
  entitySlug: entity,
  role,
  roleId: (random, names) => names.word(random, 'roles id'),
  view,
  record_id: record,
  recordId: record,
  since: cursor,
  cursor,
  before: record,
  from: date,
  to: date,
  asOf: date,
  filters: condition,
  condition,
  rowFilter: condition,
  sort: field,
  upsert: field,
  groupBy: (random) => list(random, FIELDS),
  fields: (random) => list(random, FIELDS),
  metrics: (random) => `count,${random.pick(['avg', 'sum', 'min', 'max', 'nothing'])}:${random.pick(FIELDS)}`,
  events: (random) => list(random, EVENTS),
  search: (random) => random.pick(['a', 'Nordlicht', 'no. 1', '"', 'é', '']),
  ticket: (random, names) => names.word(random, 'ticket'),
  agent_id: (random, names) => names.word(random, 'bots'),
  to_agent: (random, names) => names.word(random, 'bots'),
  token: (random, names) => names.word(random, 'invitations'),
  secret: (random, names) => names.word(random, 'secret'),
  tenantSlug: (random, names) => names.word(random, 'tenants'),
  email: (random) => `someone-${random.below(1e9)}@example.com`,
  password: () => PASSWORD,
  confirm: (random, names) => (random.chance(0.5) ? 'true' : names.word(random, 'entities')),
};

/** A text for a member or parameter of that name, if the name says what it takes. */
export function hinted(random: Random, name: string, names: Names): string | undefined {
  const hint = Object.hasOwn(HINTS, name) ? HINTS[name] : undefined;
  return hint?.(random, names);
}
