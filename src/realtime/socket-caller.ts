// The access of a token or ticket that a WebSocket sends. Tokens and tickets arrive in messages, never in cookies, so a page of
// another site cannot use a visitor's rights. The page must also be one that may use the credential.
// Failures: 401 and 403. Contract: interface#websocket, decisions#websocket, browsers#tickets, browsers#origins.
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import { propertiesOf, recognize } from '../access/credential-kinds.ts';
import { type Narrowing, NOT_NARROWED, type Opener, openerKey } from '../access/opener.ts';
import { isPageAllowed, type Page } from '../access/origins.ts';
import { resolveCaller } from '../access/resolve-caller.ts';
import { callerOfOpener, isKnownGood, openerOf } from '../access/resolve-opener.ts';
import { isTicket, useTicket } from '../access/tickets.ts';
import type { App } from '../app.ts';
import { forbidden, ServiceError, unauthorized } from '../errors.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import type { AccessSource } from './access-group.ts';

/** What a connection may receive, and how its access is loaded again. */
export interface SocketAccess {
  caller: TenantCaller;
  source: AccessSource;
  narrowing: Narrowing;
}

/** 401 and 403 for a token that does not open the WebSocket from this page. */
async function accessOf(app: App, token: string, page: Page): Promise<SocketAccess> {
  if (!isTicket(token)) return withToken(app, token, page);
  const caller = await useTicket(app, token);
  const { opener, narrowing } = caller.ticket;
  return { caller: requireAccess(caller, page, true), source: sourceOf(app, opener, page, true), narrowing };
}

async function withToken(app: App, token: string, page: Page): Promise<SocketAccess> {
  const credential = recognize('bearer', token);
  if (credential.kind !== 'token' && !propertiesOf(credential.kind).opensWebSocket) throw unauthorized();
  const caller = requireAccess(await resolveCaller(app, credential, 'channels:read'), page, false);
  if (!propertiesOf(caller.kind).opensWebSocket) throw forbidden();
  const opener = await openerOf(app, caller.tenant.id, credential);
  return { caller, source: sourceOf(app, opener, page, false), narrowing: NOT_NARROWED };
}

/** Outlives the connection, so it must not refer to the connection. */
function sourceOf(app: App, opener: Opener, page: Page, isByTicket: boolean): AccessSource {
  return {
    key: `ws ${isByTicket} ${page.isOwn} ${page.origin} ${openerKey(opener)}`,
    load: async () => requireAccess(await callerOfOpener(app, opener), page, isByTicket),
    isKnownGood: () => isKnownGood(app, opener),
  };
}

function requireAccess(given: TenantCaller, page: Page, isByTicket: boolean): TenantCaller {
  const caller = requireTenant(given);
  if (!mayFollow(caller)) throw forbidden();
  if (!isPageAllowed(caller, page, isByTicket)) throw forbidden();
  return caller;
}

/** Null for a token that is not accepted. */
export async function acceptedAccessOf(app: App, token: string, page: Page): Promise<SocketAccess | null> {
  try {
    return await accessOf(app, token, page);
  } catch (cause) {
    if (cause instanceof ServiceError && (cause.status === 401 || cause.status === 403)) return null;
    throw cause;
  }
}
