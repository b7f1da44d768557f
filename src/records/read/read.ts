// Reads one record by id within the caller's access scope, with its entity tag.
// Failures: 403 without the right to read, 404 for a record that does not exist for the caller.
// Contract: interface#records, decisions#records.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { accessScopeFor } from '../../entities/access-scope.ts';
import { notFound } from '../../errors.ts';
import { isUuid } from '../../runtime/ids.ts';
import type { FlatRecord } from '../record.ts';
import { etagOf, shape } from '../row.ts';
import { findRow } from './find.ts';
import { depthOf, type ListInput, readProjection } from './list.ts';
import { resolveRelations } from './resolve.ts';

export type ReadInput = Pick<ListInput, 'resolve' | 'resolve_depth' | 'fields'>;

/** The flat record and its ETag; no ETag with expanded relations, which change independently. 404. */
export async function readRecord(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  input: ReadInput,
): Promise<{ record: FlatRecord; etag: string | null }> {
  requireRight(caller, 'read', entityName);
  const scope = await accessScopeFor(app, caller, entityName);
  const fields = readProjection(scope, input.fields);
  const row = isUuid(id) ? await findRow(app.db, scope, id) : undefined;
  if (row === undefined) throw notFound('record');
  const record = shape(row, scope.entity, fields);
  const depth = depthOf(input);
  await resolveRelations(app, caller, scope.entity, fields, [record], depth);
  return { record, etag: depth === 0 && fields === scope.fields ? etagOf(row) : null };
}
