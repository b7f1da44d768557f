// Why a role sees a record and its fields, or does not: asked of the service, which decides. The record is read as the
// role, and each condition of the row filter is tried on the record alone. The role as it is saved counts, not a draft.

import type { Entity, Page, Row } from '../api/answers.ts';
import { AS_ROLE, get } from '../api/call.ts';
import { statusOf } from '../api/errors.ts';
import { printTree, readTree } from '../filter/tree.ts';
import { filterFor, type Person } from './as-person.ts';
import { type Grant, grantOf, type Role } from './permissions.ts';

export interface Explanation {
  /** Which row of the matrix grants reading; none when it may not read. */
  grant: Grant;
  isVisible: boolean;
  /** The conditions of the row filter that must all hold, with whether this record meets them. */
  conditions: readonly { text: string; isMet: boolean }[];
  fields: { visible: readonly string[]; hidden: readonly string[] };
}

interface Question {
  tenant: string;
  role: Role;
  entity: Entity;
  entities: readonly Entity[];
  id: string;
  /** Whom `$currentUser` stands for; without one it has no value. */
  person: Person | null;
  signal: AbortSignal;
}

/** A role that sees everything: as it, `$currentUser` has no value either. */
const SEES_ALL = 'owner';

export async function explain({ tenant, role, entity, entities, id, person, signal }: Question): Promise<Explanation> {
  const records = `/api/entities/${entity.name}/records`;
  const asRole = (name: string) => ({ tenant, signal, headers: { [AS_ROLE]: name } });
  const seen = await get<Row>(`${records}/${id}`, asRole(role.name)).catch((cause: unknown) => {
    const status = statusOf(cause);
    if (status === 403 || status === 404) return status;
    throw cause;
  });
  const keys = entity.fields.map(({ key }) => key);
  if (seen === 403) return { grant: 'none', isVisible: false, conditions: [], fields: { visible: [], hidden: keys } };
  const conditions = await Promise.all(
    partsOf(role.entities[entity.name]?.rowFilter ?? '', entity, entities).map(async (text) => {
      const own = person === null ? text : filterFor(text, person, role.name, entity, entities);
      const filters = `id = "${id}" AND (${own ?? text})`;
      const options = person === null ? asRole(SEES_ALL) : { tenant, signal };
      const { total } = await get<Page<Row>>(records, { ...options, query: { filters, limit: 1 } });
      return { text, isMet: total === 1 };
    }),
  );
  const { fields } = await get<Entity>(`/api/entities/${entity.name}`, asRole(role.name));
  const visible = keys.filter((key) => fields.some((field) => field.key === key));
  return {
    grant: grantOf(role.permissions, entity.name, 'read'),
    isVisible: person === null ? typeof seen === 'object' : conditions.every(({ isMet }) => isMet),
    conditions,
    fields: { visible, hidden: keys.filter((key) => !visible.includes(key)) },
  };
}

/** What must all hold for a row to be visible: the parts that the filter joins with AND. */
function partsOf(filter: string, entity: Entity, entities: readonly Entity[]): string[] {
  const read = readTree(filter, entity, entities);
  if ('problem' in read) return [filter];
  if (read.tree === null) return [];
  return read.tree.kind === 'and' ? read.tree.parts.map(printTree) : [printTree(read.tree)];
}
