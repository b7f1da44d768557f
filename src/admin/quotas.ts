// The quotas of a tenant as operators set them and as its admins see them: a whole number, or null for no limit.
// Failures: 400.
// Contract: neighbours#usage-and-quotas.
import { type Static, Type } from '@sinclair/typebox';
import { closed, nullable } from '../http/schemas.ts';
import { QUOTAS, type Quota, type Quotas } from '../tenants/tenants.ts';

const Limit = nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), {
  error: 'must be a whole number of 0 or more, or null for none',
  examples: [null],
});
const MEMBERS = Object.fromEntries(QUOTAS.map((quota) => [quota, Limit])) as Record<Quota, typeof Limit>;

export const QuotasSchema = Type.Object(MEMBERS, {
  $id: 'Quotas',
  description: 'what the tenant may use; null: no limit',
});
/** A change of quotas: missing members keep their values. */
export const QuotaChange = Type.Partial(closed(MEMBERS));

/** All quotas; null for a quota without a limit. */
export function shownQuotas(quotas: Quotas): Static<typeof QuotasSchema> {
  return Object.fromEntries(QUOTAS.map((quota) => [quota, quotas[quota] ?? null])) as Static<typeof QuotasSchema>;
}
