// JSON web tokens of users, developers and bots. Each kind has its own audience and its own key, derived
// from the secret, so that no token passes for another kind. HS256 only; verification requires every claim.
// The first JWT secret signs, all of them verify. Contract: decisions#tokens.
import { hkdfSync } from 'node:crypto';
import { jwt } from '@elysiajs/jwt';
import { LIMITS } from '../limits.ts';
import { Cache } from '../runtime/cache.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { sha256 } from '../runtime/tokens.ts';
import { TOKEN_KINDS, type TokenKind } from './credential-kinds.ts';

/** The content of a token. */
export interface Claims {
  kind: TokenKind;
  tenantId: string;
  /** The user's or bot's id. */
  subject: string;
  /** For users: incremented by a password change, which invalidates older tokens. */
  version: number;
  /** Unix time in seconds. */
  expiresAtS: number;
  /** For user tokens: the sign-in that they belong to; tokens issued before sessions were stored have none. */
  session?: SessionClaim;
}

/** `generation` counts the refreshes of the session. */
export interface SessionClaim {
  id: string;
  generation: number;
}

const ISSUER = 'tenant-data-service';
/** The last second that a Date can hold. */
const EXPIRY_MAX_S = 8.64e12;
const VERIFIED_MAX = 20_000;
/** Longer than the lifetime of any token. Setting it makes the library require an issue time that is not in the future. */
const MAX_AGE = `${LIMITS.developerToken.daysMax + 1} days`;
/** Allowed clock difference for the issue time. Expiry is checked here, without tolerance. */
const CLOCK_TOLERANCE_S = 300;

type Signer = ReturnType<typeof signerOf>;

function signerOf(secret: string, kind: TokenKind) {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', `jwt ${kind}`, 32));
  return jwt({ name: 'token', secret: key, alg: 'HS256' }).decorator.token;
}

/** Signs and verifies the tokens of one configuration. */
export class Tokens {
  readonly #signers: Readonly<Record<TokenKind, readonly Signer[]>>;
  /** Verified claims by the token's hash, so that a token's signature is checked once. */
  readonly #verified = new Cache<Claims | undefined>(VERIFIED_MAX, () => true);

  constructor(secrets: readonly string[]) {
    const signers = TOKEN_KINDS.map((kind) => [kind, secrets.map((secret) => signerOf(secret, kind))] as const);
    this.#signers = Object.fromEntries(signers) as Record<TokenKind, Signer[]>;
  }

  async sign({ kind, tenantId, subject, version, expiresAtS, session }: Claims): Promise<string> {
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
      ...(session === undefined ? {} : { session: session.id, generation: session.generation }),
    });
  }

  /** The claims of a valid, unexpired token; else undefined. */
  async verify(token: string): Promise<Claims | undefined> {
    const claims = await this.#verified.get(sha256(token).toString('base64'), () => this.#check(token));
    return claims !== undefined && claims.expiresAtS * 1_000 > Date.now() ? claims : undefined;
  }

  async #check(token: string): Promise<Claims | undefined> {
    const kind = TOKEN_KINDS.find((candidate) => `svc:${candidate}` === audienceOf(token));
    if (kind === undefined) return undefined;
    for (const signer of this.#signers[kind]) {
      const payload = await signer.verify(token, {
        algorithms: ['HS256'],
        audience: `svc:${kind}`,
        issuer: ISSUER,
        requiredClaims: ['exp', 'sub', 'jti', 'tenant', 'version'],
        maxTokenAge: MAX_AGE,
        clockTolerance: CLOCK_TOLERANCE_S,
      });
      if (payload !== false) return claimsFrom(kind, payload as Record<string, unknown>);
    }
    return undefined;
  }
}

/** The token's audience, unverified: it is used only to choose the key. */
function audienceOf(token: string): unknown {
  try {
    const [, payload = ''] = token.split('.');
    return (JSON.parse(Buffer.from(payload, 'base64url').toString()) as { aud?: unknown } | null)?.aud;
  } catch {
    return undefined;
  }
}

function claimsFrom(kind: TokenKind, payload: Record<string, unknown>): Claims | undefined {
  const { sub, tenant, version, exp, session, generation } = payload;
  const isValid =
    typeof sub === 'string' &&
    isUuid(sub) &&
    typeof tenant === 'string' &&
    isUuid(tenant) &&
    typeof version === 'number' &&
    typeof exp === 'number' &&
    Number.isSafeInteger(exp) &&
    exp <= EXPIRY_MAX_S;
  if (!isValid) return undefined;
  const claims: Claims = { kind, tenantId: tenant, subject: sub, version, expiresAtS: exp };
  if (session === undefined) return claims;
  if (typeof session !== 'string' || !isUuid(session) || typeof generation !== 'number') return undefined;
  return { ...claims, session: { id: session, generation } };
}
