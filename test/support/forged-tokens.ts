// Tokens that must be refused: forged, of another kind, malformed or expired, each named after its fault. They have the
// claims of a valid token and are signed as the service signs, so that each has exactly one fault.
import { createHmac, generateKeyPairSync, hkdfSync, sign } from 'node:crypto';
import type { Json } from './service.ts';

type Kind = 'user' | 'developer' | 'bot';

/** A token signed as the service signs, with any header and claims; `kind` selects the key. */
export type Sign = (claims: unknown, header?: object, kind?: Kind, digest?: string) => string;

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

export function signerWith(secret: string, usual: Kind): Sign {
  return (claims, header = {}, kind = usual, digest = 'sha256') => {
    const key = new Uint8Array(hkdfSync('sha256', secret, '', `jwt ${kind}`, 32));
    const text = `${encode({ alg: 'HS256', typ: 'JWT', ...header })}.${encode(claims)}`;
    return `${text}.${createHmac(digest, key).update(text).digest('base64url')}`;
  };
}

export const claimsOf = (token: string): Json =>
  JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString());

/** Claims that are valid for ten minutes. */
export function validClaims(kind: Kind, subject: string, tenantId: string): Json {
  const iat = Math.floor(Date.now() / 1_000);
  const identity = { iss: 'tenant-data-service', aud: `svc:${kind}`, sub: subject, jti: crypto.randomUUID() };
  return { ...identity, iat, exp: iat + 600, tenant: tenantId, version: 1 };
}

/** Faulty tokens from valid claims of this kind, signed without the secret or with it. */
export function forgeries(secret: string, claims: Json, kind: 'user' | 'bot'): Record<string, string> {
  const forged = signerWith(secret, kind);
  return {
    ...withBadSignatures(secret, claims, forged),
    ...withHeaders(claims, forged),
    ...ofOtherKinds(claims, kind, forged),
    ...withClaims(claims, kind, forged),
  };
}

function withBadSignatures(secret: string, claims: Json, forged: Sign): Record<string, string> {
  const good = forged(claims);
  const [header, payload, signature] = good.split('.') as [string, string, string];
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const rsaText = `${encode({ alg: 'RS256', typ: 'JWT' })}.${payload}`;
  const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
  const raw = (key: string | Uint8Array, head: object = { alg: 'HS256' }): string => {
    const text = `${encode(head)}.${payload}`;
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
  };
  const tokens: Record<string, string> = {
    'RS256 with the attacker’s key': `${rsaText}.${sign('sha256', Buffer.from(rsaText), privateKey).toString('base64url')}`,
    'HS256 with a public key': raw(pem),
    'the secret itself as the key': raw(secret),
    'another secret': signerWith('another secret', 'bot')(claims),
    'an empty key': raw(''),
    'a key of one character': raw('a'),
    'no signature': `${header}.${payload}.`,
    'no signature part': `${header}.${payload}`,
    'a truncated signature': `${header}.${payload}.${signature.slice(0, -4)}`,
    'the signature of another token': `${header}.${payload}.${forged({ ...claims, jti: 'x' }).split('.')[2]}`,
    'five parts': `${good}.a.b`,
    'a header that is not JSON': `${Buffer.from('eyJ').toString('base64url')}.${payload}.${signature}`,
    'a payload that is null': forged(null),
    'a payload that is a string': forged('x'),
    'a payload that is a list': forged([claims]),
  };
  const jwk = { kty: 'oct', k: Buffer.from('a'.repeat(32)).toString('base64url') };
  const kids = { jwk, jku: 'https://evil.example/keys', kid: '../../dev/null', x5u: 'https://evil.example/c' };
  for (const [name, value] of Object.entries(kids)) {
    tokens[`header ${name}`] = raw('a'.repeat(32), { alg: 'HS256', [name]: value });
  }
  tokens['kid with SQL'] = raw('', { alg: 'HS256', kid: "' union select 'a" });
  return tokens;
}

function withHeaders(claims: Json, forged: Sign): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const alg of ['none', 'None', 'NONE', '', 'HS384', 'HS512', 'RS256', 'ES256', 'dir', null, 1]) {
    tokens[`alg ${alg} signed`] = forged(claims, { alg });
    tokens[`alg ${alg} unsigned`] = `${encode({ alg })}.${encode(claims)}.`;
  }
  tokens['HS512 signature'] = forged(claims, { alg: 'HS512' }, undefined, 'sha512');
  for (const crit of [['exp'], ['x'], [], 'x', ['b64']]) {
    tokens[`crit ${JSON.stringify(crit)}`] = forged(claims, { crit });
  }
  return tokens;
}

function ofOtherKinds(claims: Json, kind: Kind, forged: Sign): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [from, to] of [
    ['user', 'developer'],
    ['user', 'bot'],
    ['developer', 'user'],
    ['bot', 'user'],
    ['bot', 'developer'],
    ['developer', 'bot'],
  ] as const) {
    tokens[`key of ${from} for ${to}`] = forged({ ...claims, aud: `svc:${to}` }, {}, from);
  }
  for (const other of (['user', 'developer', 'bot'] as const).filter(
    (other) => (other === 'bot') !== (kind === 'bot'),
  )) {
    tokens[`a ${other}’s token with the id of a ${kind}`] = forged({ ...claims, aud: `svc:${other}` }, {}, other);
  }
  return tokens;
}

function withClaims(claims: Json, kind: Kind, forged: Sign): Record<string, string> {
  const tokens: Record<string, string> = {};
  const soon = claims.exp;
  const wrong: Record<string, unknown[]> = {
    aud: [undefined, null, '', 'svc:admin', 'svc:User', ['svc:user', 'svc:bot'], 1, {}],
    iss: [undefined, 'somebody', 1],
    exp: [undefined, null, String(soon), soon - 660, 0, -1, soon + 0.5, 1e12 * 1e6, 8.64e12 + 1, {}, true],
    nbf: [soon, 'x'],
    iat: [undefined, null, 'x', soon, 1e12],
    sub: [undefined, null, '', 'x', 1, '00000000-0000-0000-0000-000000000000', claims.tenant, "' or 1=1"],
    tenant: [undefined, null, 'x', 1, claims.sub, 'a-slug', crypto.randomUUID()],
    // Bots have no password, and therefore no version.
    version: [undefined, null, '1', [1], ...(kind === 'bot' ? [] : [0, 2, 1.5, -1])],
    jti: [undefined],
  };
  for (const [claim, values] of Object.entries(wrong)) {
    for (const value of values) tokens[`${claim} ${JSON.stringify(value)}`] = forged({ ...claims, [claim]: value });
  }
  return tokens;
}
