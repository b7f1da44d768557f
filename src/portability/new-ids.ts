// The ids of a tenant that is read from a document: those of the document, or new ones, the same for the same id, so that
// whatever refers to it still does, in whichever order the lines come. A new id keeps the time and the sequence of the old one,
// so that it sorts as that did, and has a keyed hash in place of its random part: nobody can tell which id it comes from.
// Contract: portability#import.
import { createHmac, randomBytes } from 'node:crypto';
import { isUuid } from '../runtime/ids.ts';

export type IdMap = (id: string) => string;

/** The ids as they are, in lower case. */
export const sameIds: IdMap = (id) => id.toLowerCase();

/** Where the variant stands, whose digit is 8 to b; before it are 62 bits of time, version and sequence. */
const VARIANT_AT = 19;
const CACHED = 1_000;

/** New ids, other ones with each map. */
export function newIds(): IdMap {
  const key = randomBytes(32);
  // Authors and entities repeat, and records that relations point at often do.
  const known = new Map<string, string>();
  return (given) => {
    const id = given.toLowerCase();
    const seen = known.get(id);
    if (seen !== undefined) return seen;
    const hash = createHmac('sha256', key).update(id).digest('hex');
    const variant = ((Number.parseInt(hash.charAt(0), 16) & 0x3) | 0x8).toString(16);
    const mapped = `${id.slice(0, VARIANT_AT)}${variant}${hash.slice(1, 4)}-${hash.slice(4, 16)}`;
    if (known.size >= CACHED) known.clear();
    known.set(id, mapped);
    return mapped;
  };
}

/** The author of a record: the id of a user or credential, or a name that the service gave. */
export function mappedAuthor(ids: IdMap, author: string | null): string | null {
  return author !== null && isUuid(author) ? ids(author) : author;
}
