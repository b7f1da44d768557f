// The history of a record as the API answers it, what a version says in words, and the values that a record had then.
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { keyOf } from '../api/queries.ts';
import { counted } from '../parts/value.ts';

interface Actor {
  id: string | null;
  kind: string | null;
  name: string | null;
}

export interface Version {
  version: number;
  event: 'record.created' | 'record.updated' | 'record.deleted' | 'record.entered';
  at: string;
  actor: Actor;
  triggered_by: string;
  changes: Record<string, { from: unknown; to: unknown }>;
  erased?: { at: string; by: string | null };
}

interface Cursored<T> {
  items: T[];
  nextCursor?: string | null;
}

export interface Listed<T> {
  items: T[];
  hasMore: boolean;
  /** Of all that match, where the API counts them. */
  total: number | null;
}

const PER_CALL = 100;
/** A page may end early, with its bytes or its time. */
const MOST_CALLS = 10;

export const recordPath = (entity: string, id: string): string =>
  `/api/entities/${entity}/records/${encodeURIComponent(id)}`;

/** The first `wanted` items of a list with cursors. */
export async function readFirst<T>(
  tenant: string,
  path: string,
  wanted: number,
  query: Record<string, string>,
  signal: AbortSignal,
): Promise<Listed<T>> {
  const items: T[] = [];
  let cursor: string | null = '';
  let total: number | null = null;
  for (let calls = 0; cursor !== null && items.length < wanted && calls < MOST_CALLS; calls += 1) {
    const limit = Math.min(PER_CALL, wanted - items.length);
    const page: Cursored<T> & { total?: number | null } = await get(path, {
      tenant,
      signal,
      query: { ...query, limit, cursor },
    });
    total ??= page.total ?? null;
    items.push(...page.items);
    cursor = page.nextCursor ?? null;
  }
  return { items, hasMore: cursor !== null, total };
}

/** Of a record that exists or has been deleted; newest first. */
export const historyQuery = (tenant: string, entity: string, id: string, wanted: number) =>
  queryOptions({
    queryKey: keyOf(tenant, 'history', entity, id, wanted),
    queryFn: ({ signal }) => readFirst<Version>(tenant, `${recordPath(entity, id)}/history`, wanted, {}, signal),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });

const KINDS: Readonly<Record<string, string>> = {
  user: 'a person',
  bot: 'a bot',
  owner_key: 'an owner key',
  platform_key: 'a platform key',
  admin_session: 'an admin session',
  super_admin: 'the super-admin',
  system: 'the service',
};

/** Who made a change, as far as the caller may know: "Ada Lovelace", "you", "a bot 1a2b3c4d". */
export function whoOf({ id, kind, name }: Actor, self: string | null | undefined): string {
  if (id !== null && id === self) return name === null ? 'you' : `${name} (you)`;
  if (name !== null) return name;
  const words = kind === null ? 'an account that is gone' : (KINDS[kind] ?? kind.replaceAll('_', ' '));
  return id === null ? words : `${words} ${id.slice(0, 8)}`;
}

const MOST_NAMED = 3;

/** What a version did: "changed stage and amount". */
export function whatOf({ event, version, changes, erased }: Version, labelOf: (key: string) => string): string {
  if (event === 'record.created') return version === 1 ? 'created it' : 'brought it back';
  if (event === 'record.deleted') return erased === undefined ? 'deleted it' : 'erased it';
  const keys = Object.keys(changes);
  if (event === 'record.entered') return 'moved it into the rows that you see';
  if (keys.length === 0) return 'changed it';
  if (keys.length > MOST_NAMED) return `changed ${counted(keys.length, 'field')}`;
  const names = keys.map(labelOf);
  return `changed ${names.length === 1 ? names[0] : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`}`;
}

/** How a record was when it was deleted. */
export function lastValues(id: string, { changes }: Version): Row {
  const values = Object.entries(changes).map(([key, { from }]) => [key, from] as const);
  return { id, ...Object.fromEntries(values) } as Row;
}

/**
 * The values that fields had in the version at this place of a history, newest first, where they differ from those of now;
 * null when the versions since do not tell.
 */
export function valuesThen(versions: readonly Version[], place: number): Map<string, unknown> | null {
  const values = new Map<string, unknown>();
  for (let at = place - 1; at >= 0; at -= 1) {
    const { event, changes } = versions[at] as Version;
    // It shows all values and not what they were before.
    if (event === 'record.entered') return null;
    for (const [key, { from }] of Object.entries(changes)) if (!values.has(key)) values.set(key, from);
  }
  return values;
}
