// A record's row, as statements return it and events contain it: values keyed by slot, times as ISO 8601 UTC text with
// milliseconds. Its forms for expressions and for callers, and the entity tags of conditional requests.
// Contract: interface#record, decisions#concurrency.
import type { TenantCaller } from '../access/caller.ts';
import type { AccessScope } from '../entities/access-scope.ts';
import { unwrap } from '../entities/values.ts';
import { ServiceError } from '../errors.ts';
import type { RecordRow } from '../events/event.ts';
import type { StoredRow } from '../expression/ast.ts';
import { type Sql, sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { FlatRecord } from './record.ts';

export { RECORD_COLUMNS, type RecordRow } from '../events/event.ts';

/** The columns of a RecordRow with empty data, for callers that do not need the values; in a table with the alias `r`. */
export const COLUMNS_WITHOUT_DATA = sql`r.id, r.version, '{}'::jsonb as data, r.created_at, r.updated_at, r.created_by,
  r.updated_by`;

/** The columns of a RecordRow with the data of some fields only, in a table with the alias `r`. */
export function columnsOf(fields: readonly { readonly slot: string }[]): Sql {
  return sql`r.id, r.version,
    (select coalesce(jsonb_object_agg(d.key, d.value), '{}') from jsonb_each(r.data) as d
      where d.key = any(${fields.map(({ slot }) => slot)}::text[])) as data,
    r.created_at, r.updated_at, r.created_by, r.updated_by`;
}

/** The row as expressions see it. */
export function storedRow(row: RecordRow, entityId: string): StoredRow {
  return {
    id: row.id,
    entityId,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    createdBy: row.created_by,
    updatedBy: row.updated_by,
    data: row.data,
  };
}

/** The record with the given fields; a field without a value is null. */
export function shape(
  row: RecordRow,
  entity: { readonly id: string },
  fields: readonly { readonly key: string; readonly slot: string }[],
): FlatRecord {
  const record: Record<string, unknown> = { id: row.id, entityId: entity.id };
  for (const field of fields) record[field.key] = row.data[field.slot] ?? null;
  record.createdAt = row.created_at;
  record.updatedAt = row.updated_at;
  record.createdBy = row.created_by;
  record.updatedBy = row.updated_by;
  return record as FlatRecord;
}

/** The record as the response of a write shows it: to a caller that may not read, without the fields that the body does not set. */
export function shapeWritten(row: RecordRow, scope: AccessScope, body: JsonObject): FlatRecord {
  if (scope.isReadable) return shape(row, scope.entity, scope.fields);
  const written = unwrap(scope, body);
  const fields = scope.fields.filter(({ key }) => Object.hasOwn(written, key));
  return shape(row, scope.entity, fields);
}

/**
 * The strong validator of a record. It contains the record's version, which reveals nothing about hidden fields, and, if some
 * fields may be hidden, a hash of the visible ones: after a change of the caller's rights, an earlier copy does not count as
 * current. An admin who reads as a role gets separate tags, so that such a copy never counts as what the admin reads otherwise.
 */
export function etagOf(row: { version: number }, scope: Shown, { asRole }: Pick<TenantCaller, 'asRole'> = {}): string {
  return `"${row.version}${tagOfFields(scope)}${asRole === undefined ? '' : `:${asRole}`}"`;
}

/** Whether nothing is ever hidden from the caller, and the fields that it sees. */
type Shown = Pick<AccessScope, 'isUnlimited' | 'fields'>;

const tagsOfFields = new WeakMap<Shown['fields'], string>();

function tagOfFields({ isUnlimited, fields }: Shown): string {
  if (isUnlimited) return '';
  const known = tagsOfFields.get(fields);
  if (known !== undefined) return known;
  // The tag is made of keys, which the caller sees anyway. A tag of slots would give hidden fields away, and so would one that
  // only callers get whose role restricts the entity.
  const keys = fields.map(({ key }) => key).join();
  const tag = `-${sha256(keys).toString('base64url').slice(0, 8)}`;
  tagsOfFields.set(fields, tag);
  return tag;
}

/**
 * The versions that an `If-Match` accepts, whichever fields were shown; null when it is absent or `*`. A weak or foreign tag
 * matches no version.
 */
export function versionsFrom(ifMatch: string | null): number[] | null {
  if (ifMatch === null || ifMatch.trim() === '*') return null;
  return tagsIn(ifMatch).flatMap((tag) => {
    const [, version] = /^"(\d{1,15})(?:-[\w-]{8})?"$/.exec(tag) ?? [];
    return version === undefined ? [] : [Number(version)];
  });
}

/** 412 unless the row has one of the versions; null accepts any. */
export function requireVersion(row: { version: number }, versions: readonly number[] | null, stated: string): void {
  if (versions === null || versions.includes(row.version)) return;
  throw new ServiceError('PRECONDITION_FAILED', `the record has changed since the version in ${stated}`);
}

/** Whether an `If-None-Match` is `*` or names the tag, by weak comparison. */
export function isNamedIn(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.trim() === '*' || tagsIn(ifNoneMatch).some((tag) => tag.replace(/^W\//, '') === etag);
}

function tagsIn(header: string): string[] {
  return header.split(',').map((tag) => tag.trim());
}
