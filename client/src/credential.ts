// Chooses the header for a credential: each kind has a known form. Keys, tokens and sessions are sent as bearer tokens, so that
// no redirection can forward them; the secrets of the platform have their own headers.
// Contract: interface#authentication.

/** A key, token or session; the super-admin secret is any other text. */
export type Credential =
  | string
  /** The super-admin secret; with an admin key for the routes about admin keys. */
  | { adminSecret: string; adminKey?: string };

/** A function is called before each request, so that it can refresh a token; after a 401 it is called once more. */
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

/** Whether the credential can open an event stream itself; for the others, the client gets a ticket first. */
export function opensStreams(credential: Credential | undefined): boolean {
  return typeof credential === 'string' && /^svc_(ak|pkey)_/.test(credential);
}
