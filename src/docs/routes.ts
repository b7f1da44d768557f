// The API document at /swagger/json and Swagger UI at /swagger. The page's assets come from the installed package;
// the content security policy forbids other hosts and inline scripts.
// Contract: decisions#api-document.
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import { route } from '../http/route.ts';
import { buildDocument, type ListedRoute } from './document.ts';
import { INIT_SCRIPT, PAGE } from './page.ts';
import type { JsonSchema } from './schema.ts';

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

const compress = promisify(gzip);

type Text = string | Uint8Array<ArrayBuffer>;

/** A large static text, compressed once for clients that accept gzip. `load` must return the same text each time. */
export class Compressed {
  #compressed: Promise<Uint8Array<ArrayBuffer>> | undefined;

  constructor(private readonly load: () => Promise<Text>) {}

  /** The text in the encoding that the client accepts. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    if (!acceptsGzip(request)) return new Response(await this.load(), { headers: both });
    this.#compressed ??= this.load().then(compress) as Promise<Uint8Array<ArrayBuffer>>;
    return new Response(await this.#compressed, { headers: { ...both, 'content-encoding': 'gzip' } });
  }
}

function acceptsGzip(request: Request): boolean {
  const accepted = request.headers.get('accept-encoding') ?? '';
  return accepted.split(',').some((coding) => /^\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}

/** The files of the package that the page uses. */
const ASSETS: Readonly<Record<string, { type: string; text: Compressed }>> = {
  'swagger-ui-bundle.js': { type: SCRIPT, text: installed('swagger-ui-bundle.js') },
  'swagger-ui.css': { type: STYLE, text: installed('swagger-ui.css') },
};
const INIT_NAME = 'init.js';
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
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [200, 'application/json'],
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
  let kept: { server: string; text: Compressed } | undefined;
  const document = (): Compressed => {
    const server = app.config.baseUrl ?? app.address;
    if (kept?.server === server) return kept.text;
    const text = JSON.stringify(buildDocument(routes(), version, server));
    kept = { server, text: new Compressed(async () => text) };
    return kept.text;
  };
  return new Elysia({ name: 'docs' })
    .use(guard(app))
    .get(
      '/swagger',
      async () => new Response(PAGE, { headers: { ...headersOf(HTML), 'content-security-policy': POLICY } }),
      PAGE_ROUTE,
    )
    .get('/swagger/json', async ({ request }) => document().answer(request, headersOf(JSON_TYPE)), DOCUMENT_ROUTE)
    .get('/swagger/assets/:file', async ({ params, request }) => asset(params.file, request), ASSET_ROUTE);
}

/** The document of the given routes. */
export function documentOf(app: App, routes: readonly ListedRoute[]): JsonSchema {
  return buildDocument(routes, versionOfPackage(), app.config.baseUrl ?? app.address);
}

async function asset(name: string, request: Request): Promise<Response> {
  if (name === INIT_NAME) return new Response(INIT_SCRIPT, { headers: headersOf(SCRIPT) });
  const file = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined;
  if (file === undefined) throw notFound('file');
  return file.text.answer(request, { ...headersOf(file.type), 'cache-control': A_DAY });
}

function installed(name: string): Compressed {
  return new Compressed(async () => readFile(createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`)));
}

function headersOf(type: string): Record<string, string> {
  return {
    'content-type': type,
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}

function versionOfPackage(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
