// The route of the feed. Everybody who may read records may follow their changes; a public key needs `channels:read`, whose
// rights count here as they do on the channels.
// Contract: feed#the-feed.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okBounded } from '../http/bounded-response.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { guard } from '../http/guard.ts';
import { route } from '../http/route.ts';
import { readChanges } from './changes.ts';
import { followerOf } from './follower.ts';
import { ChangesPageSchema } from './item.ts';
import { ChangesQuery } from './selection.ts';

const READ = route({
  id: 'getChanges',
  tag: 'Events',
  summary: 'Follow changes',
  description: `The committed changes after a cursor that the caller may see, each exactly once, those of a record in their order.
Begin with the header \`Changes-Cursor\` of a list, or without \`since\`; go on with \`nextCursor\`. \`wait\` keeps the request
until there is a change. An item \`rights.changed\` or \`definition.changed\` means: read the records again. Of an entity that
does not exist, or that the caller may not read, there are no changes.`,
  access: 'tenant',
  mayCall: mayFollow,
  query: ChangesQuery,
  ok: [200, ChangesPageSchema],
  errors: ['CONFLICT', 'GONE', 'NOT_FOUND'],
});

export function changesRoutes(app: App) {
  return new Elysia({ name: 'changes' })
    .use(guard(app))
    .get(
      '/api/changes',
      async ({ caller, query, request }) =>
        okBounded(await readChanges(app, await followerOf(app, request, caller), query)),
      READ,
    );
}
