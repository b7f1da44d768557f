// Records read through a view. The permission required is `view:<slug>`: a role may read a view but not its
// entity. The role's restrictions on the entity (fields, row filter) still apply, and the view's condition is
// joined to them as an AST.
// Failures: 403 without the permission, 404 outside the condition, 409 for a view that no longer fits its entity.
// Contract: interface#views.
import { requireRight, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type AccessScope, accessScopeOf } from '../entities/access-scope.ts';
import { noteLocks } from '../entities/locks.ts';
import { and } from '../expression/ast.ts';
import { listIn } from '../records/read/list.ts';
import type { ListInput, ReadInput } from '../records/read/parameters.ts';
import { readIn } from '../records/read/read.ts';
import type { RecordPage } from '../records/record.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { conditionFor } from './dsl.ts';
import { viewFor } from './views.ts';

/** The caller's access scope of the view's entity, restricted by the view. */
async function viewScope(app: App, caller: TenantCaller, slug: string): Promise<AccessScope> {
  requireRight(caller, 'read', `view:${slug}`);
  const { view, entity, catalog } = await viewFor(app, caller, slug);
  noteLocks(catalog, entity);
  // Parsing twenty long conditions takes 10 ms, and many requests may have arrived at once.
  const way = giveWay();
  if (way !== undefined) await way;
  const scope = accessScopeOf(catalog, caller, entity);
  return { ...scope, rowFilter: and(scope.rowFilter, conditionFor(view.filterDsl, catalog, caller, entity)) };
}

export async function listViewRecords(
  app: App,
  caller: TenantCaller,
  slug: string,
  input: ListInput,
): Promise<RecordPage> {
  return listIn(app, caller, await viewScope(app, caller, slug), input);
}

export async function readViewRecord(app: App, caller: TenantCaller, slug: string, id: string, input: ReadInput) {
  return readIn(app, caller, await viewScope(app, caller, slug), id, input);
}
