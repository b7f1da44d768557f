// The root of the service: sends browsers to the console, and tells other clients what service this is and where to continue. A
// browser is a client whose Accept header prefers HTML to JSON.
// Contract: browsers#pages.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import { ok, typed } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { versionOfPackage } from './document.ts';
import { TITLE } from './prose.ts';

const PLACES = { console: '/app', docs: '/swagger', openapi: '/swagger/json', health: '/health' } as const;
const Path = (path: string) => Type.String({ examples: [path] });

const ROOT = route({
  id: 'getRoot',
  tag: 'API document',
  summary: 'What this is, and where to go on',
  description: 'A client that prefers HTML is sent to the console; the others get the addresses of everything.',
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [
    200,
    Type.Object({
      name: Type.String({ examples: [TITLE] }),
      version: Type.String({ examples: ['0.1.0'] }),
      console: Path(PLACES.console),
      docs: Path(PLACES.docs),
      openapi: Path(PLACES.openapi),
      health: Path(PLACES.health),
    }),
  ],
  emptyResponses: { 302: 'A browser is sent to the console.' },
});

export function rootRoutes(app: App) {
  const version = versionOfPackage();
  return new Elysia({ name: 'root' }).use(guard(app)).get(
    '/',
    async ({ request }) => {
      const vary = { vary: 'Accept' };
      if (!prefersHtml(request.headers.get('accept') ?? '')) return ok({ name: TITLE, version, ...PLACES }, vary);
      const headers = {
        ...vary,
        location: PLACES.console,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
      };
      return typed(new Response(null, { status: 302, headers }));
    },
    ROOT,
  );
}

/** Whether HTML has a higher weight than JSON, or the same weight and is named while only a wildcard matches JSON. */
export function prefersHtml(accept: string): boolean {
  const ranges = accept.split(',').map(rangeOf);
  const html = Math.max(weightOf(ranges, 'text/html'), weightOf(ranges, 'application/xhtml+xml', true));
  const json = weightOf(ranges, 'application/json');
  if (html !== json) return html > json;
  const isNamed = (type: string): boolean => ranges.some((range) => range.type === type);
  return html > 0 && isNamed('text/html') && !isNamed('application/json');
}

interface MediaRange {
  type: string;
  weight: number;
}

function rangeOf(text: string): MediaRange {
  const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const q = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  const weight = q === undefined ? 1 : Number(q);
  return { type, weight: weight >= 0 && weight <= 1 ? weight : 0 };
}

/** The weight of the most specific range that matches; 0 without one. */
function weightOf(ranges: readonly MediaRange[], type: string, isExact = false): number {
  const patterns = isExact ? [type] : [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*'];
  for (const pattern of patterns) {
    const range = ranges.find((candidate) => candidate.type === pattern);
    if (range !== undefined) return range.weight;
  }
  return 0;
}
