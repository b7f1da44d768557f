// The feed's cursor on a response with records: it says with which definitions the response is made. A process may still use former
// definitions for a moment after another one has changed them; a follower that begins at the cursor is then told to read again.
// Contract: feed#cursors, feed#changes-of-definitions.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { addChangesCursor } from '../http/changes-cursor.ts';
import { catalogOf } from './catalog.ts';

/** Adds the header to the response. Must be called before the records are read. */
export async function addCursorFor(app: App, caller: TenantCaller, request: Request): Promise<void> {
  const { definitionChanges } = await catalogOf(app, caller.tenant);
  await addChangesCursor(app, caller, request, definitionChanges);
}
