// Signing in and out. A key is checked by asking who it belongs to; a password is exchanged for a token of 24 hours.

import { credentialHeaders } from '../../client/src/credential.ts';
import type { WhoAmI } from './answers.ts';
import { call, get, post } from './call.ts';
import { statusOf } from './errors.ts';
import { forget, kindOfKey, type Session, session } from './session.ts';

interface Login {
  token: string;
  user: { id: string; email: string; name: string; role: string };
}

export async function withPassword(tenant: string, email: string, password: string): Promise<Session> {
  const slug = tenant.trim();
  const { token, user } = await post<Login>(
    '/api/auth/tenant/login',
    { email: email.trim(), password },
    { tenant: slug, isOpen: true },
  );
  return { kind: 'user', credential: token, tenant: slug, name: user.name, role: user.role, email: user.email };
}

const NAMES: Record<string, string> = { owner: 'Owner key', platform: 'Platform key', secret: 'Super-admin' };

export async function withKey(pasted: string): Promise<Session> {
  const credential = keyIn(pasted);
  const kind = kindOfKey(credential);
  const me = await get<WhoAmI>('/api/auth/whoami', { isOpen: true, headers: credentialHeaders(credential) });
  const called = me.email ?? NAMES[kind] ?? 'Operator';
  return { kind, credential, tenant: me.tenant?.slug ?? null, name: called, role: me.role, email: me.email };
}

/** The value of a pasted key, `NAME=value` line or header, without spaces and quotes around it. */
export function keyIn(pasted: string): string {
  const line = pasted.trim().replace(/^(export\s+)?[A-Z_][A-Z0-9_]*=/, '');
  return line.replace(/^(Bearer|X-[\w-]+:)\s+/i, '').replace(/^(["'])(.*)\1$/, '$2');
}

export async function forgotPassword(tenant: string, email: string): Promise<void> {
  const body = { email: email.trim() };
  await post('/api/auth/tenant/forgot-password', body, { tenant: tenant.trim(), isOpen: true });
}

/** Ends a user's session on the server; a key is forgotten. A service without the route has nothing to end. */
export async function signOut(): Promise<void> {
  const current = session.get();
  try {
    if (current?.kind === 'user') {
      await call('POST', '/api/auth/tenant/logout', {
        isOpen: true,
        tenant: current.tenant,
        headers: credentialHeaders(current.credential),
      });
    }
  } catch (cause) {
    if (![401, 404, 405].includes(statusOf(cause))) throw cause;
  } finally {
    forget();
  }
}
