// Why a role or credential may do something, or not: asked of the service, which decides. Of a row filter, each part is
// tried on the record alone. What is saved counts, not a draft.
import type { Entity, Page, Row } from '../api/answers.ts';
import { AS_ROLE, get, post } from '../api/call.ts';
import { printTree, readTree } from '../filter/tree.ts';
import { dependsOnPerson, filterFor, type Person } from './as-person.ts';
import type { Operation } from './permissions.ts';

export const EXPLAIN = '/api/access/explain';

export const CHANNELS = ['rest', 'mcp', 'changes', 'sse', 'websocket', 'webhook'] as const;
export type Channel = (typeof CHANNELS)[number];

/** The kinds of credentials that can be asked about, and what a person calls them. */
export const KINDS = {
  user: 'Person',
  developer: 'Developer token',
  owner_key: 'Owner key',
  platform_key: 'Platform key',
  public_key: 'Public key',
  bot: 'Bot',
} as const;
export type Kind = keyof typeof KINDS;

export type As = { role: string } | { kind: Kind; id: string };

/** Whom an explanation is about; `person` stands for `$currentUser`. */
export interface Subject {
  as: As;
  person: Person | null;
}

export interface Question {
  tenant: string;
  subject: Subject;
  operation: Operation;
  entity: Entity;
  entities: readonly Entity[];
  record: string | undefined;
  channel: Channel;
}

interface Answer {
  allowed: boolean;
  decidedBy: { source: string; name: string; text: string };
  fields: { visible: readonly string[]; hidden: readonly string[] };
  row: { matches: boolean; condition: string | null } | null;
}

export interface Explanation extends Answer {
  /** The parts of the row filter that must all hold, with whether the record meets them. */
  conditions: readonly { text: string; isMet: boolean }[];
}

export async function explain(question: Question, signal: AbortSignal): Promise<Explanation> {
  const { tenant, subject, operation, entity, record, channel } = question;
  const body = { as: subject.as, operation, entity: entity.name, record_id: record ?? null, channel };
  const answer = await post<Answer>(EXPLAIN, body, { tenant, signal });
  return { ...answer, conditions: await conditionsOf(question, answer, signal) };
}

/** A role that sees everything: as it, `$currentUser` has no value, and nothing else narrows the count. */
const WITHOUT_PERSON = { [AS_ROLE]: 'owner' };

async function conditionsOf(
  { tenant, subject: { as, person }, entity, entities, record }: Question,
  { row }: Answer,
  signal: AbortSignal,
): Promise<Explanation['conditions']> {
  if (row === null || row.condition === null) return [];
  const { condition, matches } = row;
  // What `$currentUser` stands for is known of people and roles; of other credentials, the answer about the whole has to do.
  if (dependsOnPerson(condition) && person === null && 'kind' in as) return [{ text: condition, isMet: matches }];
  return Promise.all(
    partsOf(condition, entity, entities).map(async (text) => {
      const own = person === null ? text : (filterFor(text, person, person.role, entity, entities) ?? text);
      const filters = `id = "${record}" AND (${own})`;
      const headers = person === null ? WITHOUT_PERSON : {};
      const options = { tenant, signal, headers, query: { filters, limit: 1 } };
      const { total } = await get<Page<Row>>(`/api/entities/${entity.name}/records`, options);
      return { text, isMet: total === 1 };
    }),
  );
}

/** What must all hold for a row to be visible: the parts that the filter joins with AND. */
function partsOf(filter: string, entity: Entity, entities: readonly Entity[]): string[] {
  const read = readTree(filter, entity, entities);
  if ('problem' in read) return [filter];
  if (read.tree === null) return [];
  return read.tree.kind === 'and' ? read.tree.parts.map(printTree) : [printTree(read.tree)];
}
