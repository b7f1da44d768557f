// The records of the bench: eight fields, about 350 bytes of JSON, the same on both sides and in every run.
// Known shares: 12 % have status `open`, 20 % contain all common words, ten share each rare word; amounts are a
// permutation of 0..n-1, so a range of a given width matches a known number.

export const PEOPLE = 1_000;
export const PAGE = 20;
/** Ids that the requests for single records cycle through. */
export const SAMPLE = 2_000;

const OTHER_STATUSES = ['draft', 'review', 'approved', 'shipped', 'invoiced', 'paid', 'archived'];
export const STATUSES = ['open', ...OTHER_STATUSES];

// No two share their first four letters, so a prefix identifies its word.
const COMMON =
  'amberly birchen cobalts dovetai everest foxglov gallant harvest indigos jasmine kestrel lantern marbles nectary orchard pilgrim';
const COMMON_WORDS = COMMON.split(' ');
const FILLER_WORDS =
  'quarto ripple saddle timber umbral velvet walnut xenial yonder zephyr quiver rattle saffron tundra'.split(' ');
const FILLERS_A_NOTE = 18;
const SHORTEST_PREFIX = 4;

export interface Item {
  title: string;
  notes: string;
  status: string;
  amount: number;
  price: number;
  active: boolean;
  due: string;
  owner: string;
}

export interface Person {
  fullName: string;
  email: string;
}

export function person(index: number): Person {
  return { fullName: `Person ${index}`, email: `person${index}@example.org` };
}

/** Record `index` of `count`; `owners` are the ids of the people it may refer to. */
export function item(index: number, count: number, owners: readonly string[]): Item {
  return {
    title: `Item ${index} ${rareWord(Math.floor(index / 10))}, counted and shelved by the second crew`,
    notes: index % 5 === 0 ? COMMON : filler(index),
    status: statusOf(index),
    amount: (index * strideFor(count)) % count,
    price: (index % 10_000) / 4,
    active: index % 3 === 0,
    due: `2026-${two(1 + (index % 12))}-${two(1 + (index % 28))}`,
    owner: owners[index % owners.length] as string,
  };
}

/** How many of `count` records have status `open`. */
export function openAmong(count: number): number {
  return Math.floor(count / 100) * 12 + Math.min(count % 100, 12);
}

/** How many of `count` records contain the common words. */
export function commonAmong(count: number): number {
  return Math.ceil(count / 5);
}

/** A word that ten records share. All such words have the same length, so none is a prefix of another. */
export function rareWord(number: number): string {
  return `rw${String(number).padStart(8, '0')}`;
}

/** Query `number` of about two thousand distinct ones that match every record with the common words. */
export function commonQuery(number: number): string {
  const words = COMMON_WORDS.length;
  const first = number % words;
  const second = (first + 1 + (Math.floor(number / words) % (words / 2 - 1))) % words;
  const lengths = Math.floor(number / words / (words / 2 - 1));
  return `${prefix(first, lengths)} ${prefix(second, lengths >> 2)}`;
}

function prefix(word: number, length: number): string {
  return (COMMON_WORDS[word] as string).slice(0, SHORTEST_PREFIX + (length % 4));
}

function filler(index: number): string {
  const words: string[] = [];
  for (let at = 0; at < FILLERS_A_NOTE; at++)
    words.push(FILLER_WORDS[(index + at * 3) % FILLER_WORDS.length] as string);
  return words.join(' ');
}

export function statusOf(index: number): string {
  if (index % 100 < 12) return 'open';
  return OTHER_STATUSES[index % OTHER_STATUSES.length] as string;
}

/** A number coprime to `count`: its multiples visit every remainder. */
function strideFor(count: number): number {
  return [7919, 7907, 7901].find((prime) => count % prime !== 0) ?? 1;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
