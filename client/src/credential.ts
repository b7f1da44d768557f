// Which header carries a credential: each kind is known by its form. Keys, tokens and sessions go as bearers, so that no
// redirection can take them along; the secrets of the platform have headers of their own.
// Contract: interface#authentication.

/** A key, token or session; the super-admin secret is any other text. */
export type Credential =
  | string
  /** The super-admin secret; with an admin key for the routes about admin keys. */
  | { adminSecret: string; adminKey?: string };

/** A function is asked before each request, so that it can refresh a token; after a 401 it is asked once more. */
export type CredentialSource = Credential | (() => Credential | Promise<Credential>);

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const JWT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

export async function currentCredential(source: CredentialSource | undefined): Promise<Credential | undefined> {
  return typeof source === 'function' ? source() : source;
}

export function credentialHeaders(credential: Credential | undefined): Record<string, string> {
  if (credential === undefined || credential === '') return {};
  if (typeof credential === 'object') {
    const { adminSecret, adminKey } = credential;
    return { 'X-Admin-Secret': adminSecret, ...(adminKey === undefined ? {} : { 'X-Admin-Key': adminKey }) };
  }
  if (credential.startsWith('svc_adm_')) return { 'X-Admin-Key': credential };
  const isToken = credential.startsWith('svc_') || UUID.test(credential) || JWT.test(credential);
  return isToken ? { Authorization: `Bearer ${credential}` } : { 'X-Admin-Secret': credential };
}

/** Whether the credential opens an event stream itself; the others get a ticket first. */
export function opensStreams(credential: Credential | undefined): boolean {
  return typeof credential === 'string' && /^svc_(ak|pkey)_/.test(credential);
}
