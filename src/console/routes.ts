// The console at /app: its built files, and the index page for each path that the console itself routes, also those
// of the links in mails. Needs no credential: the console signs in through the API, like any client. Not part of the
// API document, which describes calls of programs. Contract: interface#console.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import { route } from '../http/route.ts';
import { asset, indexPage } from './files.ts';

const TAG = 'Console';
const ASSETS = '/app/assets/:file';
/** The paths that the console routes: its pages, and the links in mails in both of their forms. */
const PAGES = {
  start: '/app',
  others: '/app/*',
  invitation: '/invite/:token',
  reset: '/reset-password',
} as const;

export function consoleRoutes(app: App) {
  return new Elysia({ name: 'console' })
    .use(guard(app))
    .get(ASSETS, ({ request, params }) => asset(request, params.file), pageRoute('getConsoleAsset', 'A file'))
    .get(PAGES.start, ({ request }) => indexPage(request), pageRoute('showConsole', 'The console'))
    .get(PAGES.others, ({ request }) => indexPage(request), pageRoute('showConsolePage', 'A page of the console'))
    .get(PAGES.invitation, ({ request }) => indexPage(request), pageRoute('showInvitation', 'An invitation'))
    .get(PAGES.reset, ({ request }) => indexPage(request), pageRoute('showPasswordReset', 'A new password'));
}

/** Whether the route serves the console rather than the API. */
export function isOfConsole(path: string): boolean {
  return path === ASSETS || (Object.values(PAGES) as string[]).includes(path);
}

function pageRoute(id: string, summary: string) {
  return route({ id, tag: TAG, summary, access: 'open', query: ANY_PARAMETERS, ok: [200, 'text/html'] });
}
