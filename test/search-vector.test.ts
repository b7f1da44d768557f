// The words of a record for the search, as the write statement sends them: short ASCII texts are read by a faster method, which
// finds the same words as the general one, and Postgres stores the same.
// Contract: decisions#search.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Entity } from '../src/entities/field.ts';
import { searchVector, termOf, wordsOf } from '../src/entities/search-vector.ts';
import { foldAccents } from '../src/expression/accent-folding.ts';
import { arrayLiteral } from '../src/runtime/array-literal.ts';
import { sql } from '../src/runtime/sql.ts';
import { startService, type TestService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const KEYS = ['f1', 'f12', 'f3'];
const entity = {
  searchFolding: false,
  fields: KEYS.map((slot) => ({ key: slot, slot, type: 'text' })),
} as unknown as Entity;

/** Texts of short words, gaps of any ASCII, and words at the longest that a term may be. */
const text = fc
  .array(
    fc.oneof(
      fc.stringMatching(/^[A-Za-z0-9]{1,4}$/),
      fc.string({ unit: 'binary-ascii', maxLength: 6 }).map((gap) => gap.replaceAll('\0', '')),
      fc.constantFrom('x'.repeat(200), 'y'.repeat(201), "it's", ' ', '"', '\\'),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

test('short texts in ASCII have the words that they have beside a text with accents', async () => {
  await fc.assert(
    fc.asyncProperty(text, text, async (first, second) => {
      const quick = await searchVector(entity, { f1: first, f12: second });
      const general = await searchVector(entity, { f1: first, f12: second, f3: '\u00e9' });
      const stored = await service.app.db.first<{ quick: string; general: string }>(sql`
        select coalesce(${quick}::text::tsvector, '')::text as quick,
          ts_delete(${general}::text::tsvector, ${'\u00e9'})::text as general`);
      expect(stored?.quick).toBe(stored?.general as string);
    }),
    { numRuns: 300 },
  );
});

test('of a long text in ASCII each word counts, also a rare one among many repetitions', async () => {
  const words = Array.from({ length: 30_000 }, (_, i) => `W${(i * 7_919) % (i % 3 === 0 ? 20_000 : 50)}x`);
  words.push('last', 'y'.repeat(5_000));
  for (const gap of [' ', '. ', '\n\t']) {
    const vector = await searchVector(entity, { f1: words.join(gap), f3: '\u00e9' });
    const found = [...(vector ?? '').matchAll(/'([^']*)':1 /g)].map(([, word]) => word as string);
    const expected = new Set(words.map((word) => word.toLowerCase().slice(0, 200)));
    expect(found.length).toBe(new Set(found).size);
    expect(found.filter((word) => !expected.has(word) && !/^y+$/.test(word))).toEqual([]);
    expect([...expected].filter((word) => !found.includes(word))).toEqual([]);
  }
});

/** The terms of a short text, read as a whole, with their weights. */
function termsOf(text: string): Set<string> {
  const { words } = wordsOf(text);
  const terms = new Set(words.map(termOf));
  const folded = words.map((word) => termOf(foldAccents(word))).filter((word) => !terms.has(word));
  return new Set([...[...terms].map((term) => `'${term}':1`), ...folded.map((term) => `'${term}':1A`)]);
}

const folding = { ...entity, searchFolding: true } as unknown as Entity;
const vectorOf = async (text: string) =>
  new Set(
    ((await searchVector(folding, { f1: text })) ?? '')
      .trim()
      .split(' ')
      .filter((term) => term !== ''),
  );

test('reading a text unit by unit finds the words that reading it as a whole finds, for every unit', async () => {
  for (let unit = 0x80; unit <= 0xffff; unit++) {
    const between = `a${String.fromCharCode(unit)}B ${String.fromCharCode(unit)}`.toWellFormed();
    expect(await vectorOf(between)).toEqual(termsOf(between));
  }
});

test('reading a text unit by unit finds the words that reading it as a whole finds, in any texts', async () => {
  const letters = fc.constantFrom(
    ...'aIıİ\u212aßøæéйЁςΣﬁ½…´\u0301\u1100\u1161\u11a8가ｱﾞ漢ا\u064bक\u093c😀\u{10400}©™- ',
  );
  const any = fc.array(fc.oneof(letters, fc.string({ unit: 'binary', maxLength: 3 })), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(any, async (parts) => {
      const text = `é${parts.join('')}`.toWellFormed();
      expect(await vectorOf(text)).toEqual(termsOf(text));
    }),
    { numRuns: 3_000 },
  );
});

test('an array of any texts arrives in Postgres as it is', async () => {
  const any = fc.string({ unit: 'binary' }).map((item) => item.toWellFormed().replaceAll('\0', ''));
  const items = fc.array(
    fc.oneof(any, fc.constantFrom('NULL', '', '{', '}', ',', '"', '\\', 'a\nb', 'é"'.repeat(5_000))),
  );
  await fc.assert(
    fc.asyncProperty(items, async (given) => {
      const row = await service.app.db.first<{ items: string[] }>(sql`
        select to_jsonb(${arrayLiteral(given)}::text[]) as items`);
      expect(row?.items).toEqual(given);
    }),
    { numRuns: 200 },
  );
});
