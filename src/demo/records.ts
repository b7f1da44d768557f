// The records of the demo, derived from a counter, so that every demo is the same: 40 companies, 120 people, 240
// deals, in several writing systems. Money is a string with an exact decimal; times are UTC.
// Contract: decisions#configuration.
import type { JsonObject } from '../runtime/text.ts';
import { COUNTRIES, STAGES, TAGS } from './entities.ts';

const COMPANIES = 40;
const PEOPLE = 120;
const DEALS = 240;

const FIRST_PARTS = ['Nordlicht', 'Étoile', 'Αιγαίο', 'Ísafjörður', '青空', 'Żubr', 'São Bento', 'Ängsö'];
const TRADES = ['Bakery', 'Bicycles', 'Optics', 'Robotics', 'Shipping'];
const GIVEN_NAMES = 'Jürgen Chloé Ελένη Björk 美咲 Łukasz João Åsa Maya Omar Zoë Ivan'.split(' ');
const FAMILY_NAMES = 'Müller Lefèvre Παππάς Jónsdóttir 佐藤 Wójcik Gonçalves Öberg Stein Haddad'.split(' ');
const CITIES = ['Hamburg', 'Lyon', 'Χανιά', 'Akureyri', '京都', 'Gdańsk', 'Braga', 'Malmö'];
const SUBJECTS = ['annual contract', 'pilot project', 'spare parts', 'training', 'maintenance', 'new showroom'];
const NOTES = ['Wants a call back.', 'Asked for a discount 🙂', 'Prefers e-mail.', 'Budget approved – sign soon.'];

/** The records of one entity, as bodies of `POST .../records`; `ids` are those of existing records, by entity. */
export function demoRecords(entity: string, ids: Readonly<Record<string, readonly string[]>>): JsonObject[] {
  const { companies = [], people = [] } = ids;
  if (entity === 'companies') return times(COMPANIES, company);
  if (entity === 'people') return times(PEOPLE, (i) => person(i, pick(companies, i)));
  return times(DEALS, (i) => deal(i, pick(companies, i * 7), [pick(people, i), pick(people, i * 3 + 1)]));
}

function company(i: number): JsonObject {
  return {
    title: `${pick(FIRST_PARTS, i)} ${pick(TRADES, i)}`,
    website: `https://company-${i + 1}.example/`,
    country: pick(COUNTRIES, i),
    employees: 3 + ((i * 37) % 480),
    rating: ((i * 13) % 50) / 10,
    tags: TAGS.filter((_, tag) => (i + tag) % 3 === 0),
    taxNumber: `00000000-0000-4000-8000-${String(i + 1).padStart(12, '0')}`,
    founded: dayAfter('1950-01-01', i * 631),
    address: { city: pick(CITIES, i), street: `Market Street ${i + 1}`, floors: [1 + (i % 3)] },
  };
}

function person(i: number, companyId: string): JsonObject {
  return {
    fullName: `${pick(GIVEN_NAMES, i)} ${pick(FAMILY_NAMES, i * 7 + Math.floor(i / 12))}`,
    email: `person-${i + 1}@company-${(i % COMPANIES) + 1}.example`,
    newsletter: i % 3 === 0,
    company: companyId,
  };
}

function deal(i: number, companyId: string, contacts: readonly string[]): JsonObject {
  return {
    title: `${pick(SUBJECTS, i)} no. ${i + 1}`,
    stage: pick(STAGES, i * 3 + Math.floor(i / 5)),
    amount: `${250 + ((i * 7_919) % 90_000)}.${String((i * 17) % 100).padStart(2, '0')}`,
    closesAt: `${dayAfter('2026-01-01', (i * 11) % 365)}T${String(8 + (i % 10)).padStart(2, '0')}:30:00.000Z`,
    company: companyId,
    contacts: [...new Set(contacts)],
    ...(i % 4 === 0 ? { notes: pick(NOTES, i / 4) } : {}),
  };
}

function times(count: number, make: (i: number) => JsonObject): JsonObject[] {
  return Array.from({ length: count }, (_, i) => make(i));
}

function pick<T>(items: readonly T[], i: number): T {
  return items[i % items.length] as T;
}

function dayAfter(day: string, days: number): string {
  return new Date(Date.parse(day) + days * 86_400_000).toISOString().slice(0, 10);
}
