// A role while it is edited: permissions, hidden fields, row filters; and what saving it would change, in words.
import { nameOf, OPERATIONS, type Permissions, type Restriction, type Role } from '../../access/permissions.ts';

export type Draft = Pick<Role, 'permissions' | 'entities'>;

/** The fields of an entity that the role sees. System fields are always visible and not among them. */
export function visible(restriction: Restriction | undefined, keys: readonly string[]): string[] {
  const { fields, excludeFields = [] } = restriction ?? {};
  return keys.filter((key) => (fields?.includes(key) ?? true) && !excludeFields.includes(key));
}

/** Shows or hides a field. */
export function withField(restriction: Restriction, key: string, isShown: boolean): Restriction {
  const { fields, excludeFields = [] } = restriction;
  const without = excludeFields.filter((one) => one !== key);
  if (fields !== undefined) {
    const others = fields.filter((one) => one !== key);
    return { ...restriction, fields: isShown ? [...others, key] : others, ...excluding(without, excludeFields) };
  }
  return { ...restriction, excludeFields: isShown ? without : [...without, key] };
}

function excluding(next: readonly string[], before: readonly string[]): Restriction {
  return before.length === 0 ? {} : { excludeFields: next };
}

/** Whether fields that are added to the entity later are hidden: the list then names what is visible. */
export function withLaterHidden(restriction: Restriction, keys: readonly string[], isHidden: boolean): Restriction {
  const { rowFilter, fields = [] } = restriction;
  const shown = visible(restriction, keys);
  const system = fields.filter((key) => !keys.includes(key));
  const hidden = keys.filter((key) => !shown.includes(key));
  return {
    ...(rowFilter === undefined ? {} : { rowFilter }),
    ...(isHidden ? { fields: [...system, ...shown] } : { excludeFields: hidden }),
  };
}

/** With one entity's restriction; an empty one is left out. */
export function withRestriction(draft: Draft, entity: string, { rowFilter, ...rest }: Restriction): Draft {
  const filter = rowFilter?.trim() ?? '';
  const next: Restriction = { ...rest, ...(filter === '' ? {} : { rowFilter: rowFilter as string }) };
  if (next.excludeFields?.length === 0) delete next.excludeFields;
  const { [entity]: _, ...others } = draft.entities;
  const isEmpty = Object.keys(next).length === 0;
  return { ...draft, entities: isEmpty ? others : { ...others, [entity]: next } };
}

/** What saving changes, a sentence each; `keysOf` gives the fields of an entity. */
export function sentences(
  before: Draft,
  after: Draft,
  role: string,
  keysOf: (entity: string) => readonly string[],
): string[] {
  return [
    ...permissionSentences(before.permissions, after.permissions, role),
    ...Object.keys({ ...before.entities, ...after.entities }).flatMap((entity) =>
      restrictionSentences(before.entities[entity], after.entities[entity], role, entity, keysOf(entity)),
    ),
  ];
}

function permissionSentences(before: Permissions, after: Permissions, role: string): string[] {
  const said: string[] = [];
  for (const resource of Object.keys({ ...before, ...after })) {
    const had = before[resource] ?? [];
    const has = after[resource] ?? [];
    const given = OPERATIONS.filter((one) => has.includes(one) && !had.includes(one));
    const taken = OPERATIONS.filter((one) => had.includes(one) && !has.includes(one));
    if (given.length > 0) said.push(`${role} may now ${listed(given)} ${nameOf(resource)}.`);
    if (taken.length > 0)
      said.push(`${role} may no longer ${listed(taken)} ${nameOf(resource)}${stillBy(resource, taken, after)}.`);
  }
  return said;
}

/** Taking an operation from an entity takes nothing while the row for all grants it. */
function stillBy(resource: string, taken: readonly string[], after: Permissions): string {
  const wildcard = resource.startsWith('view:') ? 'view:*' : '*';
  const kept = OPERATIONS.filter((one) => taken.includes(one) && after[wildcard]?.includes(one));
  return resource === wildcard || kept.length === 0
    ? ''
    : ` itself, but the row for ${nameOf(wildcard)} still allows it`;
}

function restrictionSentences(
  before: Restriction | undefined,
  after: Restriction | undefined,
  role: string,
  entity: string,
  keys: readonly string[],
): string[] {
  const saw = visible(before, keys);
  const sees = visible(after, keys);
  const lost = saw.filter((key) => !sees.includes(key));
  const won = sees.filter((key) => !saw.includes(key));
  const filter = after?.rowFilter;
  const isRowChange = filter !== before?.rowFilter;
  const later = (before?.fields === undefined) !== (after?.fields === undefined);
  return [
    ...(lost.length > 0 ? [`${role} loses ${listed(lost)} in ${entity}.`] : []),
    ...(won.length > 0 ? [`${role} now sees ${listed(won)} in ${entity}.`] : []),
    ...(later ? [`Fields added to ${entity} later are ${after?.fields === undefined ? 'visible' : 'hidden'}.`] : []),
    ...(isRowChange && filter === undefined ? [`${role} now sees every record of ${entity}.`] : []),
    ...(isRowChange && filter !== undefined ? [`${role} sees only records of ${entity} where ${filter.trim()}.`] : []),
  ];
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}
