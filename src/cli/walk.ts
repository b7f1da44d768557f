// The records of a list, page by page, without gaps or repetition. When the service is busy or restarts, the pages read so far
// are not lost: a page is requested until it comes, with the pauses of the client. Only the first request fails at once, so that
// a wrong address is reported, unless the service itself asks to come back later.
// Failures: those of the client.
import { ApiError } from '../../client/src/client.ts';
import { backOffMs, pause } from '../../client/src/waiting.ts';
import { recordsPath } from './entity.ts';
import type { Row } from './output.ts';
import type { Query, Service } from './service.ts';

interface Page {
  items: Row[];
  nextCursor?: string | null;
}

export async function* walk(service: Service, entity: string, selection: Query): AsyncGenerator<Row> {
  const read = async (cursor: string, retries: number): Promise<Page> => {
    const query = { ...selection, count: 'none', cursor };
    return (await service.answer<Page>('GET', recordsPath(entity), { query, retries })).data;
  };
  let page = await read('', 0).catch(async (error: unknown) => {
    if (!(error instanceof ApiError) || error.retryAfterMs === null || !BUSY.includes(error.status)) throw error;
    const waitMs = backOffMs(0, error.retryAfterMs);
    service.onRetry({ error, waitMs, attempt: 1 });
    await pause(waitMs, service.signal);
    return read('', Number.POSITIVE_INFINITY);
  });
  for (;;) {
    yield* page.items;
    if (!page.nextCursor) return;
    page = await read(page.nextCursor, Number.POSITIVE_INFINITY);
  }
}

const BUSY = [429, 503];
