// Clones a tenant: imports its document into a new tenant of the same service while that is being exported, with masks applied.
// The document shows one moment. Ids are kept; password hashes, keys and secrets are not copied.
// Failures: 400, 404, 409, 429. None leaves anything behind.
// Contract: portability#clone.
import type { Static } from '@sinclair/typebox';
import type { Caller } from '../access/caller.ts';
import { TenantName, TenantSlug } from '../admin/tenants.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { notFound } from '../errors.ts';
import { check } from '../http/check.ts';
import { closed, optional } from '../http/schemas.ts';
import { inPieces } from '../records/transfer/import.ts';
import { tenantBySlug } from '../tenants/tenants.ts';
import { exportTenant } from './export.ts';
import { type ImportedTenant, importTenant } from './import.ts';
import { MaskInput, masksOf } from './mask.ts';

export const NewClone = closed({ slug: TenantSlug, name: TenantName, mask: optional(MaskInput) }, { $id: 'NewClone' });
export type NewClone = Static<typeof NewClone>;

/** 400 if a mask does not fit the tenant's definitions, before anything is copied. */
export async function cloneTenant(app: App, caller: Caller, slug: string, body: NewClone): Promise<ImportedTenant> {
  const source = await tenantBySlug(app, slug);
  if (source === null) throw notFound('tenant');
  const { slug: own, name, mask } = check(NewClone, body);
  masksOf(await catalogOf(app, source), mask ?? {});
  const { body: document } = await exportTenant(app, caller, source, { withHashes: false, onCut: () => {} });
  return importTenant(app, caller, inPieces(document), { slug: own, name, ids: 'keep', mask: mask ?? {} });
}
