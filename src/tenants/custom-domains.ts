// A tenant's custom domain: claimed, then verified, by a DNS record with the tenant's token or by an operator. Several
// tenants may claim a domain; the first verified one keeps it, and the others lose their claim. Only the configured
// resolver is asked, never the domain itself. Times are milliseconds.
// Contract: neighbours#custom-domains.
import { type App, perApp } from '../app.ts';
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { openResolver } from '../runtime/dns.ts';
import { type Queries, sql, type Tx } from '../runtime/sql.ts';
import { newToken } from '../runtime/tokens.ts';
import { within } from '../runtime/within.ts';
import { publishTenants } from './tenants.ts';

const TOKEN_PREFIX = 'svc-verify-';
const { lookupMs, checkEveryMs, recheckMs, checksPerRound } = LIMITS.customDomain;

/** A claim to check. */
interface PendingClaim {
  id: string;
  domain: string;
  token: string;
}

const PENDING = sql`domain_verified_at is null and settings ->> 'customDomain' is not null and status = 'active'`;
const CLAIM = sql`id, settings ->> 'customDomain' as domain, domain_token as token`;

/** Serialises all changes of slugs and domains until the commit. */
export async function lockTenantNames(tx: Tx): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext('tenant names'))`);
}

/** The token for a new claim; null without a domain. */
export function newDomainToken(domain: string | null): string | null {
  return domain === null ? null : newToken(TOKEN_PREFIX);
}

/** 409 when another tenant has verified the domain. Must hold the lock on names. */
export async function requireDomainFree(tx: Tx, domain: string, tenantId: string): Promise<void> {
  const taken = await tx.first(sql`
    select from platform.tenants
    where settings ->> 'customDomain' = ${domain} and domain_verified_at is not null and id <> ${tenantId}::uuid`);
  if (taken !== undefined) throw conflict(`the domain ${domain} is taken`);
}

/** Whether a tenant has verified the domain. */
export async function isDomainVerified(tx: Tx, domain: string): Promise<boolean> {
  const taken = await tx.first(sql`
    select from platform.tenants where settings ->> 'customDomain' = ${domain} and domain_verified_at is not null`);
  return taken !== undefined;
}

/** Ends the claims of the other tenants, and resolves to their ids. Must hold the lock on names. */
export async function endOtherClaims(tx: Tx, domain: string, tenantId: string): Promise<string[]> {
  const rows = await tx.rows<{ id: string }>(sql`
    update platform.tenants
    set settings = settings || '{"customDomain": null}', domain_token = null, updated_at = now()
    where settings ->> 'customDomain' = ${domain} and id <> ${tenantId}::uuid
    returning id`);
  return rows.map((row) => row.id);
}

/** Checks the tenant's pending claim, unless it was checked within the last seconds. Resolves to whether it is now verified. */
export async function checkClaim(app: App, tenantId: string): Promise<boolean> {
  const claim = await app.db.first<PendingClaim>(sql`
    update platform.tenants set domain_checked_at = now()
    where id = ${tenantId}::uuid and ${PENDING} and ${isDue(checkEveryMs)}
    returning ${CLAIM}`);
  return claim !== undefined && (await verifyByDns(app, claim));
}

/** Checks the pending claims that are due, of any tenant. Resolves to their number. */
export async function checkClaimsOnce(app: App): Promise<number> {
  const claims = await app.db.rows<PendingClaim>(sql`
    update platform.tenants set domain_checked_at = now()
    where id in (
      select id from platform.tenants
      where ${PENDING} and ${isDue(recheckMs)}
      order by domain_checked_at nulls first
      limit ${checksPerRound}::int
      for update skip locked
    )
    returning ${CLAIM}`);
  await Promise.all(claims.map((claim) => verifyByDns(app, claim)));
  return claims.length;
}

function isDue(everyMs: number) {
  return sql`(domain_checked_at is null or domain_checked_at < now() - make_interval(secs => ${everyMs / 1_000}::float8))`;
}

async function verifyByDns(app: App, { id, domain, token }: PendingClaim): Promise<boolean> {
  if (!(await recordsOf(app, domain)).includes(token)) return false;
  const others = await app.db.begin(async (tx) => {
    await lockTenantNames(tx);
    return (await markVerified(tx, { id, domain, token })) ? endOtherClaims(tx, domain, id) : null;
  });
  if (others === null) return false;
  await publishTenants(app, [id, ...others], [`host:${domain}`]);
  return true;
}

/** False when the claim has changed since, or another tenant was first. */
async function markVerified(queries: Queries, { id, domain, token }: PendingClaim): Promise<boolean> {
  const row = await queries.first(sql`
    update platform.tenants as own set domain_verified_at = now(), updated_at = now()
    where id = ${id}::uuid and ${PENDING} and domain_token = ${token} and settings ->> 'customDomain' = ${domain}
      and not exists (
        select from platform.tenants as other
        where other.settings ->> 'customDomain' = ${domain} and other.domain_verified_at is not null
      )
    returning id`);
  return row !== undefined;
}

const resolverOf = perApp(({ config }) => openResolver(config.dnsServers, { timeout: lookupMs, tries: 1 }));

/** The TXT records of the domain's verification name; empty when they cannot be read in time. */
async function recordsOf(app: App, domain: string): Promise<string[]> {
  return within(lookupMs, resolverOf(app).texts(`_svc-verify.${domain}`)).catch((): string[] => []);
}
