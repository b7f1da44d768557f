// Answers CORS preflight requests, by which a browser asks whether a page of another origin may read with a
// public key. They carry no credential. Failures: 503 when the database is unreachable.
// Contract: decisions#keys.
import { Elysia } from 'elysia';
import { preflightHeaders } from '../access/origins.ts';
import type { App } from '../app.ts';

/** OPTIONS on every path: 204, with CORS headers for the origins of public keys. */
export function preflight(app: App) {
  return new Elysia({ name: 'preflight' }).options(
    '/*',
    async ({ request }) => new Response(null, { status: 204, headers: await preflightHeaders(app, request) }),
  );
}
