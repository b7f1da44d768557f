// Answers to OPTIONS: a browser's question whether a page of another site may read with a public key. No
// credential is asked for, none is sent. 503 when the database is away.
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
