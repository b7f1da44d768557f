// The macro by which a route has its JSON body read, with or without a caller. What the body holds is
// for the route to check; that it is sound JSON of the right size and type is settled here.
// Contract: decisions#answers.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import type { JsonObject } from '../runtime/text.ts';
import { readJson } from './body.ts';

/** The macro `json`: the body is read, `true` for at most MAX_BODY_BYTES, else a limit in bytes. 400, 413, 415. */
export function jsonBodies(app: App) {
  return new Elysia({ name: 'json-bodies' }).macro('json', (limit: true | number) => ({
    parse: () => null,
    transform: async (context: { request: Request; body?: unknown }) => {
      const maxBytes = limit === true ? app.config.maxBodyBytes : limit;
      context.body = (await readJson(context.request, maxBytes)) satisfies JsonObject;
    },
  }));
}
