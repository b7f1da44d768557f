// Your changes to a record's form: texts by field over the record as it was read. Saving sends only what differs, with the
// ETag of what the person saw. When someone else was first, changes of other fields are kept beside ours; for the same
// field the person chooses, and nothing is written before.
import { useCallback, useMemo, useState } from 'react';
import type { Entity, Row } from '../../api/answers.ts';
import { call } from '../../api/call.ts';
import { problemsByField, statusOf } from '../../api/errors.ts';
import { editText, parseText } from '../../grid/values.ts';

/** A record and the version that it is. */
export interface Version {
  row: Row;
  etag: string | null;
}

export interface Conflict {
  key: string;
  mine: unknown;
  theirs: unknown;
  before: unknown;
}

export interface Saved {
  /** The values before, by key, to take the change back. */
  before: Record<string, unknown>;
  after: Version;
  /** Fields that someone else changed meanwhile. */
  others: string[];
}

interface State {
  base: Version;
  typed: Record<string, string>;
  problems: Record<string, string>;
  conflicts: Conflict[];
  failure: unknown;
  isSaving: boolean;
}

const MOST_TRIES = 5;

export interface Draft extends State {
  isDirty: boolean;
  textOf: (key: string) => string;
  type: (key: string, text: string) => void;
  discard: (to?: Version) => void;
  save: () => Promise<Saved | null>;
  /** Settles a field that two changed; saves when it was the last. */
  choose: (key: string, whose: 'mine' | 'theirs') => Promise<Saved | null>;
}

const none = (base: Version): State => ({
  base,
  typed: {},
  problems: {},
  conflicts: [],
  failure: null,
  isSaving: false,
});

export function useDraft(tenant: string, entity: Entity, read: Version): Draft {
  const [state, setState] = useState(() => none(read));
  const path = `/api/entities/${entity.name}/records/${read.row.id}`;
  const change = useCallback((patch: Partial<State>) => setState((now) => ({ ...now, ...patch })), []);
  const initial = useMemo(
    () => Object.fromEntries(entity.fields.map((field) => [field.key, editText(field, state.base.row[field.key])])),
    [entity, state.base],
  );
  const save = async (typed: Record<string, string>): Promise<Saved | null> => {
    const { body, problems } = bodyOf(entity, typed);
    if (Object.keys(problems).length > 0) {
      change({ problems, failure: null });
      return null;
    }
    change({ isSaving: true, problems: {}, failure: null, conflicts: [] });
    try {
      const written = await write(tenant, path, state.base, body);
      if ('conflicts' in written) {
        change({ isSaving: false, base: written.base, conflicts: written.conflicts, typed });
        return null;
      }
      setState(none(written.after));
      return written;
    } catch (cause) {
      const byField = problemsByField(cause);
      const isNamed = entity.fields.some(({ key }) => key in byField);
      change({ isSaving: false, problems: byField, failure: isNamed ? null : cause });
      return null;
    }
  };
  const choose = async (key: string, whose: 'mine' | 'theirs'): Promise<Saved | null> => {
    const typed = { ...state.typed };
    if (whose === 'theirs') delete typed[key];
    const conflicts = state.conflicts.filter((one) => one.key !== key);
    change({ typed, conflicts });
    return conflicts.length > 0 || Object.keys(typed).length === 0 ? null : save(typed);
  };
  return {
    ...state,
    isDirty: Object.keys(state.typed).length > 0,
    textOf: (key) => state.typed[key] ?? initial[key] ?? '',
    type: (key, text) =>
      setState((now) => {
        const typed = { ...now.typed, [key]: text };
        const problems = { ...now.problems };
        if (text === initial[key]) delete typed[key];
        delete problems[key];
        return { ...now, typed, problems };
      }),
    discard: (to) => setState((now) => none(to ?? now.base)),
    save: () => save(state.typed),
    choose,
  };
}

/** What is to be sent: an emptied field is null. */
function bodyOf(entity: Entity, typed: Record<string, string>) {
  const body: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of entity.fields) {
    const text = typed[field.key];
    if (text === undefined) continue;
    if (text === '') {
      if (field.required) problems[field.key] = 'is required';
      else body[field.key] = null;
      continue;
    }
    const parsed = parseText(field, text);
    if ('problem' in parsed) problems[field.key] = parsed.problem;
    else body[field.key] = parsed.value;
  }
  return { body, problems };
}

type Written = Saved | { base: Version; conflicts: Conflict[] };

async function write(tenant: string, path: string, seen: Version, body: Record<string, unknown>): Promise<Written> {
  let base = seen;
  const others = new Set<string>();
  for (let tries = 1; ; tries += 1) {
    try {
      const headers: Record<string, string> = base.etag === null ? {} : { 'If-Match': base.etag };
      const { data, etag } = await call<Row>('PATCH', path, { tenant, body, headers });
      const before = Object.fromEntries(Object.keys(body).map((key) => [key, base.row[key] ?? null]));
      return { before, after: { row: data, etag }, others: [...others] };
    } catch (cause) {
      if (statusOf(cause) !== 412 || tries === MOST_TRIES) throw cause;
      const now = await readRecord(tenant, path);
      const conflicts = Object.keys(body)
        .filter((key) => !isSame(now.row[key], base.row[key]) && !isSame(now.row[key], body[key]))
        .map((key) => ({ key, mine: body[key], theirs: now.row[key], before: base.row[key] }));
      if (conflicts.length > 0) return { base: now, conflicts };
      for (const key of Object.keys(now.row)) if (!isSame(now.row[key], base.row[key])) others.add(key);
      base = now;
    }
  }
}

export async function readRecord(tenant: string, path: string, signal?: AbortSignal): Promise<Version> {
  const { data, etag } = await call<Row>('GET', path, { tenant, signal });
  return { row: data, etag };
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}
