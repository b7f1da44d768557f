// Signed tokens: one kind, audience and key each for users, developers and bots, so that a token of
// one kind is never taken for another. HS256 only; every claim that matters is required on
// verification. The first JWT secret signs, all verify. Contract: decisions#tokens.
import { hkdfSync } from 'node:crypto';
import { jwt } from '@elysiajs/jwt';
import { LIMITS } from '../limits.ts';
import { Cache } from '../runtime/cache.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sha256 } from '../runtime/tokens.ts';

export type TokenKind = 'user' | 'developer' | 'bot';
const KINDS: readonly TokenKind[] = ['user', 'developer', 'bot'];

/** What a token says. */
export interface Claims {
  kind: TokenKind;
  tenantId: string;
  /** The user's or bot's id. */
  subject: string;
  /** Users: the version that a change of password raises, ending older tokens. */
  version: number;
  /** Seconds since 1970. */
  expiresAtS: number;
}

const ISSUER = 'tenant-data-service';
/** The last second that a date can hold. */
const LATEST_S = 8.64e12;
const VERIFIED_MAX = 20_000;
/** Past what any token lasts: with it the time of issue has to be there, and not to come. */
const OLDEST = `${LIMITS.developerToken.daysMax + 1} days`;
/** How far the clocks of two machines may be apart; when a token runs out is this one's alone to say. */
const SKEW_S = 300;

type Signer = ReturnType<typeof signerOf>;

function signerOf(secret: string, kind: TokenKind) {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', `jwt ${kind}`, 32));
  return jwt({ name: 'token', secret: key, alg: 'HS256' }).decorator.token;
}

/** Signs and verifies the tokens of one configuration. */
export class Tokens {
  readonly #signers: Readonly<Record<TokenKind, readonly Signer[]>>;
  /** Verified claims by the token's hash: the signature of a token in use is checked once. */
  readonly #verified = new Cache<Claims | undefined>(VERIFIED_MAX, () => true);

  constructor(secrets: readonly string[]) {
    const signers = (kind: TokenKind): Signer[] => secrets.map((secret) => signerOf(secret, kind));
    this.#signers = { user: signers('user'), developer: signers('developer'), bot: signers('bot') };
  }

  async sign({ kind, tenantId, subject, version, expiresAtS }: Claims): Promise<string> {
    const [signer] = this.#signers[kind];
    return (signer as Signer).sign({
      iss: ISSUER,
      aud: `svc:${kind}`,
      kind,
      sub: subject,
      jti: newId(),
      exp: expiresAtS,
      tenant: tenantId,
      version,
    });
  }

  /** The claims of a token that is sound and has not expired; else undefined. */
  async verify(token: string): Promise<Claims | undefined> {
    const claims = await this.#verified.get(sha256(token).toString('base64'), () => this.#check(token));
    return claims !== undefined && claims.expiresAtS * 1_000 > Date.now() ? claims : undefined;
  }

  async #check(token: string): Promise<Claims | undefined> {
    const kind = KINDS.find((candidate) => `svc:${candidate}` === audienceOf(token));
    if (kind === undefined) return undefined;
    for (const signer of this.#signers[kind]) {
      const payload = await signer.verify(token, {
        algorithms: ['HS256'],
        audience: `svc:${kind}`,
        issuer: ISSUER,
        requiredClaims: ['exp', 'sub', 'jti', 'tenant', 'version'],
        maxTokenAge: OLDEST,
        clockTolerance: SKEW_S,
      });
      if (payload !== false) return claimsFrom(kind, payload as Record<string, unknown>);
    }
    return undefined;
  }
}

/** The audience a token claims, unverified: it only chooses the key to verify with. */
function audienceOf(token: string): unknown {
  try {
    const [, payload = ''] = token.split('.');
    return (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { aud?: unknown } | null)?.aud;
  } catch {
    return undefined;
  }
}

function claimsFrom(kind: TokenKind, payload: Record<string, unknown>): Claims | undefined {
  const { sub, tenant, version, exp } = payload;
  const isSound =
    typeof sub === 'string' &&
    isUuid(sub) &&
    typeof tenant === 'string' &&
    isUuid(tenant) &&
    typeof version === 'number' &&
    typeof exp === 'number' &&
    Number.isSafeInteger(exp) &&
    exp <= LATEST_S;
  return isSound ? { kind, tenantId: tenant, subject: sub, version, expiresAtS: exp } : undefined;
}
