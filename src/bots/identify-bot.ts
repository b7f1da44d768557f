// Exchanges a bot's name and secret for a token of one hour. A wrong secret, an unknown name and a locked bot get
// the same 401; a revoked bot with the right secret gets 403.
// Contract: interface#identity, decisions#lockout.
import { timingSafeEqual } from 'node:crypto';
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { guardAccount, limitAttempts } from '../access/lockout.ts';
import { tokensOf } from '../access/resolve-caller.ts';
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { check } from '../http/check.ts';
import { closed, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { BotName, type BotPermissions, BotPermissionsSchema } from './bots.ts';

export const IdentifiedBotSchema = Type.Object(
  {
    id: Uuid,
    name: BotName,
    tenantSlug: Type.String({ examples: ['acme'] }),
    tenantId: Uuid,
    permissions: BotPermissionsSchema,
    token: Type.String({ examples: ['eyJ...'] }),
    expiresIn: Type.Integer({ description: 'seconds', examples: [LIMITS.bot.ttlS] }),
  },
  { $id: 'IdentifiedBot' },
);

const TEXT_MAX = 1_000;
export const BotSecret = closed({
  name: text(TEXT_MAX, { examples: ['order-agent'] }),
  secret: text(TEXT_MAX, { examples: ['svc_bot_...'] }),
});

interface BotRow {
  id: string;
  name: string;
  secret_hash: string;
  permissions: BotPermissions;
  revoked_at: string | null;
}

/** Issues a token for the bot. 429 past the limit of attempts per address. */
export async function identifyBot(
  app: App,
  caller: TenantCaller,
  body: Static<typeof BotSecret>,
  request: Request,
): Promise<Static<typeof IdentifiedBotSchema>> {
  const { name, secret } = check(BotSecret, body);
  const { tenant } = caller;
  const found: BotRow[] = [];
  await limitAttempts(app, request);
  await guardAccount(app, { kind: 'bot', tenantId: tenant.id, name }, async () => {
    found.push(...(await findBot(app, tenant.id, name)));
    return isSecretOf(found[0], secret);
  });
  const { id, permissions, revoked_at: revokedAt } = found[0] as BotRow;
  if (revokedAt !== null) throw forbidden('this bot is revoked');
  app.lastUsed.note('bots', id);
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

const UNMATCHABLE = '00'.repeat(32);

/** Takes the same time whether the bot exists or not. */
function isSecretOf(bot: BotRow | undefined, secret: string): boolean {
  const isSame = timingSafeEqual(Buffer.from(bot?.secret_hash ?? UNMATCHABLE, 'hex'), sha256(secret));
  return isSame && bot !== undefined;
}
