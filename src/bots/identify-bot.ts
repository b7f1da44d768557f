// A bot proves who it is: name and secret against a token for an hour. A wrong secret, an unknown name
// and a locked bot are one 401; a revoked bot with its right secret gets 403.
// Contract: interface#identity, decisions#lockout.
import { timingSafeEqual } from 'node:crypto';
import type { TenantCaller } from '../access/caller.ts';
import { attemptIdentity } from '../access/lockout.ts';
import { tokensOf } from '../access/resolve-caller.ts';
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { Input, text } from '../http/input.ts';
import { LIMITS } from '../limits.ts';
import { sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { sha256 } from '../runtime/tokens.ts';
import type { BotPermissions } from './bot-permissions.ts';

export interface IdentifiedBot {
  id: string;
  name: string;
  tenantSlug: string;
  tenantId: string;
  permissions: BotPermissions;
  token: string;
  /** Seconds. */
  expiresIn: number;
}

interface BotRow {
  id: string;
  name: string;
  secret_hash: string;
  permissions: BotPermissions;
  revoked_at: string | null;
}

const TEXT_MAX = 1_000;

/** A token for the bot. 429 when the request's address has tried too often. */
export async function identifyBot(
  app: App,
  caller: TenantCaller,
  body: JsonObject,
  request: Request,
): Promise<IdentifiedBot> {
  const input = new Input(body);
  const name = input.required('name', text(TEXT_MAX));
  const secret = input.required('secret', text(TEXT_MAX));
  input.refuseOthers();
  input.done();
  const { tenant } = caller;
  const found: BotRow[] = [];
  await attemptIdentity(app, { kind: 'bot', tenantId: tenant.id, name, request }, async () => {
    found.push(...(await findBot(app, tenant.id, name)));
    return isSecretOf(found[0], secret);
  });
  const { id, permissions, revoked_at: revokedAt } = found[0] as BotRow;
  if (revokedAt !== null) throw forbidden('this bot is revoked');
  const expiresIn = LIMITS.bot.ttlS;
  const expiresAtS = Math.floor(Date.now() / 1_000) + expiresIn;
  const token = await tokensOf(app).sign({ kind: 'bot', tenantId: tenant.id, subject: id, version: 0, expiresAtS });
  return { id, name, tenantSlug: tenant.slug, tenantId: tenant.id, permissions, token, expiresIn };
}

function findBot(app: App, tenantId: string, name: string): Promise<BotRow[]> {
  return app.db.rows<BotRow>(sql`
    select id, name, encode(secret_hash, 'hex') as secret_hash, permissions, revoked_at from platform.bots
    where tenant_id = ${tenantId}::uuid and name = ${name}`);
}

const NOBODY = '00'.repeat(32);

/** Takes the same time whether there is such a bot or not. */
function isSecretOf(bot: BotRow | undefined, secret: string): boolean {
  const isSame = timingSafeEqual(Buffer.from(bot?.secret_hash ?? NOBODY, 'hex'), sha256(secret));
  return isSame && bot !== undefined;
}
