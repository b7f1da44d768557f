// The ids of an imported tenant: those of the document, or new ones. The same id always maps to the same new id, so references
// stay intact in any order of lines. A new id keeps the time and the sequence of the old one, so it sorts like the old one; a
// keyed hash replaces the random part, so the new id does not reveal the old one.
// Contract: portability#import.
import { createHmac, randomBytes } from 'node:crypto';
import { isUuid } from '../runtime/ids.ts';

export type IdMap = (id: string) => string;

/** Keeps the ids, in lower case. */
export const sameIds: IdMap = (id) => id.toLowerCase();

/** The position of the variant, whose digit is 8 to b; 62 bits of time, version and sequence precede it. */
const VARIANT_AT = 19;
const CACHED = 1_000;

/** New ids; each map produces different ones. */
export function newIds(): IdMap {
  const key = randomBytes(32);
  // Ids of authors and entities repeat, and so do ids of records that relations often refer to.
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

/** The author of a record: the id of a user or credential, or a name that the service assigned. */
export function mappedAuthor(ids: IdMap, author: string | null): string | null {
  return author !== null && isUuid(author) ? ids(author) : author;
}
