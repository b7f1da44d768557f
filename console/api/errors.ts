// What a call can end with besides its data. Every error of the API becomes the client's `ApiError`; a call that got no
// answer an `OfflineError`. Both have a sentence that can be shown as it is.
import { ApiError } from '../../client/src/errors.ts';

export { ApiError };

export class OfflineError extends Error {
  override readonly name = 'OfflineError';

  constructor() {
    super('No connection to the service.');
  }
}

export function isAborted(cause: unknown): boolean {
  return cause instanceof DOMException && cause.name === 'AbortError';
}

/** The status of an error of the API; 0 of any other. */
export function statusOf(cause: unknown): number {
  return cause instanceof ApiError ? cause.status : 0;
}

/** The API's message for the field that a problem names, such as `title` or `data.title`. */
export function problemsByField(cause: unknown): Record<string, string> {
  if (!(cause instanceof ApiError)) return {};
  return Object.fromEntries(cause.details.map(({ path, message }) => [path.replace(/^(body|data)\./, ''), message]));
}
