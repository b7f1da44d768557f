// The commands printed at start-up, for pasting into a shell. They contain the demo's keys, so they go to the console
// and never to the log; the super-admin secret is read from its file or variable, never printed.
// Contract: decisions#configuration.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { App } from '../app.ts';
import { type DemoKeys, VIEW } from './access.ts';

/** The commands of a new demo; its keys are shown here only. */
export function firstCalls(app: App, slug: string, keys: DemoKeys & { owner: string }): string[] {
  const { owner: key } = keys;
  const owner = `X-API-Key: ${key}`;
  const records = `${app.address}/api/entities/deals/records`;
  const call = (path: string, ...parameters: string[]): string => get(owner, `${records}${path}`, parameters);
  const body = JSON.stringify({ title: 'Nordlicht Cafés', country: 'DE', employees: 12 });
  return [
    '',
    `The demo tenant "${slug}" is ready. Its owner key, shown only once: ${key}`,
    `Sign in with it in a browser: ${app.address}/app`,
    'Or paste one of these into a shell:',
    '',
    ...titled('who am I', get(owner, `${app.address}/api/auth/whoami`, [])),
    ...titled('filter and sort', call('', 'filters=stage = won AND amount > 50000', 'sort=-amount', 'limit=5')),
    ...titled('search, with the related records', call('', 'search=pilot', 'resolve=true', 'limit=2')),
    ...titled('across a relation', call('', 'filters=company.country in (IS, JP) AND stage != lost', 'count=none')),
    ...titled('sums by stage', call('/aggregate', 'metrics=count,sum:amount', 'groupBy=stage')),
    ...titled(
      'a view, with a key of the role "partner"',
      get(`Authorization: Bearer ${keys.platform}`, `${app.address}/api/views/${VIEW}/records`, ['limit=2']),
    ),
    ...titled(
      'only what its role may read, with a public key',
      get(`X-Public-Key: ${keys.public}`, records, ['limit=2']),
    ),
    ...titled('export', call('/export', 'format=csv', 'filters=stage = won')),
    ...titled('create', post(key, `${app.address}/api/entities/companies/records`, body)),
    ...apiDocument(app),
  ];
}

/** How to get a key of a demo created by an earlier start. */
export function anotherKey(app: App, slug: string): string[] {
  const headers = `-H "X-Admin-Secret: ${secretReference(app)}" -H 'X-Tenant-ID: ${slug}'`;
  const body = `-H 'Content-Type: application/json' -d '{"label":"another key"}'`;
  return [
    '',
    `The demo tenant "${slug}" exists from an earlier start. To create a key for it:`,
    `  curl -sS ${headers} ${body} '${app.address}/api/keys'`,
    ...apiDocument(app),
  ];
}

/** How to create the first tenant without a demo. */
export function firstTenant(app: App): string[] {
  const headers = `-H "X-Admin-Secret: ${secretReference(app)}" -H 'Content-Type: application/json'`;
  return [
    '',
    'There is no tenant yet. To create one (the response contains its key):',
    `  curl -sS ${headers} -d '{"slug":"acme","name":"Acme"}' '${app.address}/api/admin/platform/tenants'`,
    ...apiDocument(app),
  ];
}

/** A shell expression for the secret. */
function secretReference({ config }: App): string {
  const file = join(config.dataDir, 'admin-secret');
  const isInFile = existsSync(file) && readFileSync(file, 'utf8').trim() === config.adminSecrets[0];
  return isInFile ? `$(cat '${file}')` : '$ADMIN_SECRET';
}

function apiDocument(app: App): string[] {
  return ['', `console: ${app.address}/app`, `API: ${app.address}/swagger`];
}

function titled(title: string, command: string): string[] {
  return [`# ${title}`, command];
}

function get(header: string, url: string, parameters: readonly string[]): string {
  const encoded = parameters.map((parameter) => ` --data-urlencode '${parameter}'`).join('');
  return `curl -sSG -H '${header}'${encoded} '${url}'`;
}

function post(key: string, url: string, body: string): string {
  return `curl -sS -H 'X-API-Key: ${key}' -H 'Content-Type: application/json' -d '${body}' '${url}'`;
}
