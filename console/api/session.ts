// Who is signed in: in memory and in sessionStorage, so that a reload keeps it and closing the tab ends it; never in
// localStorage or a URL. `expired` is true after a 401: calls wait until the person has signed in again.
import { Store } from './store.ts';

export type CredentialKind = 'user' | 'session' | 'owner' | 'platform' | 'secret' | 'admin-key';

export interface Session {
  kind: CredentialKind;
  credential: string;
  /** The tenant that the credential is bound to; null for those of the platform. */
  tenant: string | null;
  /** How to call the person. */
  name: string;
  role: string | null;
  email: string | null;
}

const KEY = 'svc.session';
const TENANT_KEY = 'svc.tenant';

export const session = new Store<Session | null>(read());
export const expired = new Store(false);

function read(): Session | null {
  try {
    const text = sessionStorage.getItem(KEY);
    return text === null ? null : (JSON.parse(text) as Session);
  } catch {
    return null;
  }
}

/** Begins or, after a 401, continues the session. */
export function signIn(next: Session): void {
  session.set(next);
  expired.set(false);
  try {
    sessionStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // The session then lasts until the page is left.
  }
  if (next.tenant !== null) rememberTenant(next.tenant);
}

/** For the next sign-in in this browser. */
export function rememberTenant(slug: string): void {
  try {
    localStorage.setItem(TENANT_KEY, slug);
  } catch {
    // It is then typed again.
  }
}

export function forget(): void {
  session.set(null);
  expired.set(false);
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was stored.
  }
}

/** The tenant of the last sign-in in this browser: the only thing that is remembered. */
export function lastTenant(): string {
  try {
    return localStorage.getItem(TENANT_KEY) ?? '';
  } catch {
    return '';
  }
}

/** Whether the session may act on the platform. */
export function isOperator(current: Session | null): boolean {
  return current?.kind === 'secret' || current?.kind === 'admin-key';
}

/** What a pasted key is, by its form. */
export function kindOfKey(key: string): CredentialKind {
  if (key.startsWith('svc_ak_')) return 'owner';
  if (key.startsWith('svc_pkey_') || key.startsWith('svc_pk_')) return 'platform';
  if (key.startsWith('svc_adm_')) return 'admin-key';
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(key)) return 'session';
  if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(key)) return 'user';
  return 'secret';
}
