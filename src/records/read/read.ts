// Reads one record by id within the caller's access scope, with its entity tag.
// Failures: 403 without the right to read, 404 for a record that does not exist for the caller.
// Contract: interface#records, decisions#records.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import { notFound } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import type { FlatRecord } from '../record.ts';
import { etagOf, shape } from '../row.ts';
import { findRow } from './find.ts';
import { depthOf, readProjection } from './list.ts';
import type { ReadInput } from './parameters.ts';
import { resolveRelations } from './resolve.ts';

interface ReadResult {
  record: FlatRecord;
  /** Null for a part of the record, and with expanded relations, which change independently. */
  etag: string | null;
}

export async function readRecord(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  input: ReadInput,
): Promise<ReadResult> {
  requireRight(caller, 'read', entityName);
  return readIn(app, caller, await accessScopeFor(app, caller, entityName), id, input);
}

/** Reads one of an access scope's records. */
export async function readIn(
  app: App,
  caller: TenantCaller,
  scope: AccessScope,
  id: string,
  input: ReadInput,
): Promise<ReadResult> {
  const fields = readProjection(scope, input.fields);
  const row = isUuid(id) ? await findRow(app.db, scope, id) : undefined;
  if (row === undefined) throw notFound('record');
  const record = shape(row, scope.entity, fields);
  const depth = depthOf(input);
  await resolveRelations(app, caller, scope.entity, fields, [record], depth);
  return { record, etag: depth === 0 && fields === scope.fields ? etagOf(row) : null };
}
