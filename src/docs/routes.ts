// The API document at /swagger/json, in general or for a credential, and Swagger UI at /swagger. The page's assets come from the installed package;
// the content security policy forbids other hosts and inline scripts.
// Contract: decisions#api-document.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { authenticate } from '../access/authenticate.ts';
import { securityOf } from '../access/route-access.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS, lenientParameters } from '../http/parameters.ts';
import { route } from '../http/route.ts';
import { documentText } from './caller-document.ts';
import { Compressed } from './compressed.ts';
import { buildDocument, type ListedRoute, versionOfPackage } from './document.ts';
import { INIT_SCRIPT, PAGE, PAGE_STYLE } from './page.ts';

const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'text/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';
/** Inline styles are allowed, because Swagger UI sets styles from its script. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** The files of the package that the page uses. */
const ASSETS: Readonly<Record<string, { type: string; text: Compressed }>> = {
  'swagger-ui-bundle.js': { type: SCRIPT, text: installed('swagger-ui-bundle.js') },
  'swagger-ui.css': { type: STYLE, text: installed('swagger-ui.css') },
};
const OWN_ASSETS: Readonly<Record<string, { type: string; text: string }>> = {
  'init.js': { type: SCRIPT, text: INIT_SCRIPT },
  'page.css': { type: STYLE, text: PAGE_STYLE },
};
const A_DAY = 'public, max-age=86400';
const TAG = 'API document';

const PAGE_ROUTE = route({
  id: 'showApiDocument',
  tag: TAG,
  summary: 'Swagger UI',
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [200, 'text/html'],
});
const DOCUMENT_ROUTE = route({
  id: 'getApiDocument',
  tag: TAG,
  summary: 'This document',
  description: `Without a credential, all routes of the service. With one, the routes that it may use, where the generic record
routes are replaced by those of the tenant's own entities, with their types.`,
  access: 'open',
  admits: { 'x-access': 'open', security: [{}, ...securityOf('any')] },
  query: lenientParameters({
    entity: Type.Optional(
      Type.String({
        description: 'with a credential: only these entities, separated by commas',
        examples: ['companies'],
      }),
    ),
  }),
  ok: [200, 'application/json'],
  errors: [
    'VALIDATION_ERROR',
    'UNAUTHORIZED',
    'FORBIDDEN',
    'NOT_FOUND',
    'RATE_LIMITED',
    'QUOTA_EXCEEDED',
    'SERVICE_UNAVAILABLE',
  ],
});
const ASSET_ROUTE = route({
  id: 'getApiDocumentAsset',
  tag: TAG,
  summary: 'A file of the Swagger UI page',
  access: 'open',
  query: ANY_PARAMETERS,
  params: { file: 'a script or a style sheet of the page' },
  ok: [200, ['text/javascript', 'text/css']],
});

/** `routes` returns all routes; called on the first request, when the service's address is known. */
export function docsRoutes(app: App, routes: () => readonly ListedRoute[]) {
  const version = versionOfPackage();
  const encoder = new TextEncoder();
  let kept: { server: string; text: Compressed } | undefined;
  const generic = (): Compressed => {
    const server = app.config.baseUrl ?? app.address;
    if (kept?.server === server) return kept.text;
    const made = buildDocument(routes(), version, server).then((document) => encoder.encode(JSON.stringify(document)));
    kept = { server, text: new Compressed(() => made) };
    return kept.text;
  };
  return new Elysia({ name: 'docs' })
    .use(guard(app))
    .get(
      '/swagger',
      async () => new Response(PAGE, { headers: { ...headersOf(HTML), 'content-security-policy': POLICY } }),
      PAGE_ROUTE,
    )
    .get(
      '/swagger/json',
      async ({ request, query }) => {
        const caller = await authenticate(app, request);
        if (caller === null) return generic().answer(request, headersOf(JSON_TYPE));
        const names = query.entity?.split(',').map((name) => name.trim()) ?? null;
        const text = await documentText(app, routes(), caller, names);
        return text.answer(request, {
          ...headersOf(JSON_TYPE),
          'cache-control': 'no-store',
        });
      },
      DOCUMENT_ROUTE,
    )
    .get('/swagger/assets/:file', async ({ params, request }) => asset(params.file, request), ASSET_ROUTE);
}

async function asset(name: string, request: Request): Promise<Response> {
  const own = Object.hasOwn(OWN_ASSETS, name) ? OWN_ASSETS[name] : undefined;
  if (own !== undefined) return new Response(own.text, { headers: headersOf(own.type) });
  const file = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined;
  if (file === undefined) throw notFound('file');
  return file.text.answer(request, { ...headersOf(file.type), 'cache-control': A_DAY });
}

function installed(name: string): Compressed {
  let bytes: Promise<Buffer<ArrayBuffer>> | undefined;
  return new Compressed(() => {
    bytes ??= readFile(createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`));
    return bytes;
  });
}

function headersOf(type: string): Record<string, string> {
  return {
    'content-type': type,
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}
