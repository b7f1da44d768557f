// The kinds of credentials: how a request presents each, what it is bound to, what it may do. To add a kind, add
// an entry here, a function in resolve-caller.ts (the compiler requires it) and its operations. A request with
// two credentials is refused: none takes precedence. Failures: 401.
// Contract: interface#credentials.
import { unauthorized } from '../errors.ts';
import { isUuid } from '../runtime/ids.ts';

/** An `Authorization` scheme, or a dedicated header. */
type Carrier = 'bearer' | 'adminkey' | `x-${string}`;

interface KindProperties {
  /** The prefix of the values, or their format if they have none. */
  format: `svc_${string}_` | 'jwt' | 'uuid' | 'secret';
  carriers: readonly Carrier[];
  /** The platform table with the hashes. */
  table: string | null;
  /** The tenant in which the credential works: the tenant that it is bound to, the tenant that the request names, or none. */
  tenant: 'bound' | 'named' | 'none';
  /** The source of the rights. `all` and an admin `role` make a tenant admin; `role-reads` is read-only. */
  rights: 'all' | 'role' | 'role-reads' | 'permissions' | 'scopes';
  /** The kind of account that failed attempts lock. */
  account: 'user' | 'bot' | null;
  /** Whether each key has its own rate limits, besides the general one. */
  hasOwnRateLimits: boolean;
  /** The push channels that accept it. */
  opensEventStream: boolean;
  opensWebSocket: boolean;
  /** Whether people use it in the console, which marks its changes as made there. */
  opensConsole: boolean;
  /** The security scheme in the API document. */
  scheme: keyof typeof SECURITY_SCHEMES;
}

export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'a JWT of a user, developer or bot, an admin session token, or an owner, platform or public key',
  },
  apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key', description: 'an owner API key' },
  publicKey: { type: 'apiKey', in: 'header', name: 'X-Public-Key', description: 'a public key; reads only' },
  adminKey: { type: 'apiKey', in: 'header', name: 'X-Admin-Key', description: 'an admin key of the platform' },
  adminSecret: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Admin-Secret',
    description: 'the super-admin secret; with a tenant header it acts as that tenant’s admin',
  },
  ticket: {
    type: 'apiKey',
    in: 'query',
    name: 'ticket',
    description: 'a ticket for one stream, valid once within 30 seconds; the only credential that a query may have',
  },
} as const;

const BOUND = {
  table: null,
  tenant: 'bound',
  account: null,
  hasOwnRateLimits: false,
  opensEventStream: false,
  opensWebSocket: false,
  opensConsole: false,
} as const;
const TOKEN = { ...BOUND, format: 'jwt', carriers: ['bearer'], scheme: 'bearer' } as const;

export const CREDENTIAL_KINDS = {
  owner_key: {
    ...BOUND,
    format: 'svc_ak_',
    carriers: ['bearer', 'x-api-key'],
    table: 'owner_keys',
    rights: 'all',
    opensEventStream: true,
    opensConsole: true,
    scheme: 'apiKey',
  },
  platform_key: {
    ...BOUND,
    format: 'svc_pkey_',
    carriers: ['bearer'],
    table: 'platform_keys',
    rights: 'permissions',
    opensEventStream: true,
    opensWebSocket: true,
    scheme: 'bearer',
  },
  public_key: {
    ...BOUND,
    format: 'svc_pk_',
    carriers: ['bearer', 'x-public-key', 'x-anon-key'],
    table: 'public_keys',
    rights: 'role-reads',
    hasOwnRateLimits: true,
    opensWebSocket: true,
    scheme: 'publicKey',
  },
  user: { ...TOKEN, rights: 'role', account: 'user', opensConsole: true },
  developer: { ...TOKEN, rights: 'role', account: 'user' },
  bot: { ...TOKEN, rights: 'permissions', account: 'bot', opensWebSocket: true },
  admin_session: {
    ...BOUND,
    format: 'uuid',
    carriers: ['bearer'],
    table: 'admin_sessions',
    rights: 'all',
    opensWebSocket: true,
    opensConsole: true,
    scheme: 'bearer',
  },
  admin_key: {
    ...BOUND,
    format: 'svc_adm_',
    carriers: ['adminkey', 'x-admin-key'],
    table: 'admin_keys',
    tenant: 'none',
    rights: 'scopes',
    scheme: 'adminKey',
  },
  super_admin: {
    ...BOUND,
    format: 'secret',
    carriers: ['x-admin-secret'],
    tenant: 'named',
    rights: 'all',
    scheme: 'adminSecret',
  },
} as const satisfies Record<string, KindProperties>;

type Kinds = typeof CREDENTIAL_KINDS;
type KindsWith<Properties extends Partial<KindProperties>> = {
  [Kind in keyof Kinds]: Kinds[Kind] extends Properties ? Kind : never;
}[keyof Kinds];

export type CredentialKind = keyof Kinds;
export type TokenKind = KindsWith<{ format: 'jwt' }>;
/** Kinds whose values begin with a prefix. */
export type KeyKind = KindsWith<{ format: `svc_${string}_` }>;
/** Kinds that are bound to a tenant and looked up by their hash. */
export type StoredKind = KindsWith<{ tenant: 'bound'; table: string }>;
export type AccountKind = NonNullable<Kinds[CredentialKind]['account']>;

const KINDS = Object.keys(CREDENTIAL_KINDS) as CredentialKind[];
export const TOKEN_KINDS = KINDS.filter(isTokenKind);

/** A credential as presented. The kind of a token is known only after verification. */
export interface Credential {
  kind: Exclude<CredentialKind, TokenKind> | 'token';
  value: string;
}

export function propertiesOf(kind: CredentialKind): KindProperties {
  return CREDENTIAL_KINDS[kind];
}

/** The request's credentials: none, one, or an admin key with the super-admin secret. 401 for any other pair. */
export function credentialsIn(headers: Headers): Credential[] {
  const found: Credential[] = [];
  const authorization = headers.get('authorization');
  if (authorization !== null) found.push(fromAuthorization(authorization));
  for (const header of OWN_HEADERS) {
    const value = headers.get(header);
    if (value !== null) found.push(recognize(header, value));
  }
  if (found.length <= 1) return found;
  const kinds = found.map(({ kind }) => kind).sort();
  if (found.length === 2 && kinds[0] === 'admin_key' && kinds[1] === 'super_admin') return found;
  throw severalCredentials();
}

/** The headers without any credential. */
export function withoutCredentials(headers: Headers): Headers {
  const others = new Headers(headers);
  for (const name of ['authorization', ...OWN_HEADERS]) others.delete(name);
  return others;
}

export function severalCredentials(): Error {
  return unauthorized('send one credential, not several');
}

const OWN_HEADERS = KINDS.flatMap((kind) => propertiesOf(kind).carriers).filter((carrier) => carrier.startsWith('x-'));

function fromAuthorization(authorization: string): Credential {
  const [, scheme, value] = /^(Bearer|AdminKey) +(\S+)$/i.exec(authorization.trim()) ?? [];
  if (scheme === undefined || value === undefined) throw unauthorized('malformed Authorization header');
  return recognize(scheme.toLowerCase() as Carrier, value);
}

/** The credential, by carrier and format of the value. 401 when no kind matches. */
export function recognize(carrier: Carrier, value: string): Credential {
  const kind = KINDS.find((candidate) => {
    const { carriers, format } = propertiesOf(candidate);
    return carriers.includes(carrier) && hasFormat(value, format);
  });
  if (kind === undefined) throw unauthorized();
  return { kind: isTokenKind(kind) ? 'token' : kind, value };
}

function hasFormat(value: string, format: KindProperties['format']): boolean {
  if (format === 'secret') return true;
  if (format === 'uuid') return isUuid(value);
  return value.startsWith(format === 'jwt' ? 'eyJ' : format);
}

function isTokenKind(kind: CredentialKind): kind is TokenKind {
  return propertiesOf(kind).format === 'jwt';
}
