// Values as text, the same everywhere: null is a dash, an empty text its quotes, numbers have separators, times are
// those of the person's zone.
const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 20 });
/** Of a number that was calculated, the digits beyond these are noise; its editor and its tooltip have them all. */
const ROUNDED = new Intl.NumberFormat('en', { maximumFractionDigits: 4 });
const SMALL = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const STEPS: readonly [unit: Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** A value of a type that is not known here. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return '—';
  if (value === '') return '""';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return NUMBER.format(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return JSON.stringify(value);
}

/** A decimal as stored, with separators; never through a float. */
export function decimal(text: string): string {
  const match = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  if (match === null) return text;
  return `${match[1]}${(match[2] as string).replace(/\B(?=(\d{3})+$)/g, ',')}${match[3] ?? ''}`;
}

/** A binary number without the digits that only its binary form has: 256.4099999 is 256.41. */
export function rounded(value: number): string {
  return (Math.abs(value) >= 0.01 || value === 0 ? ROUNDED : SMALL).format(value);
}

/** A day of the calendar, the same in every zone. */
export const day = (value: string): string => (Number.isNaN(Date.parse(value)) ? value : DATE.format(new Date(value)));
export const time = (value: string): string => (Number.isNaN(Date.parse(value)) ? value : TIME.format(new Date(value)));
export const exactTime = (value: string): string =>
  Number.isNaN(Date.parse(value)) ? value : `${EXACT.format(new Date(value))} (${value})`;

/** "2 minutes ago", "yesterday". */
export function ago(value: string, now = Date.now()): string {
  const seconds = (Date.parse(value) - now) / 1_000;
  if (Number.isNaN(seconds)) return value;
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return RELATIVE.format(Math.round(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? 'just now' : RELATIVE.format(Math.round(seconds), 'second');
}

/** "0 records", "1 record", "12,480 records". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${NUMBER.format(count)} ${count === 1 ? one : many}`;
}

const LONGEST_TITLE = 120;
const TITLES = ['title', 'label', 'subject', 'email'];

/** The field by which an entity's records are called. */
export function titleKeyOf(fields: readonly { key: string; type: string; required?: boolean }[]): string | undefined {
  const named = TITLES.find((key) => fields.some((field) => field.key === key));
  return named ?? fields.find(({ type, required }) => type === 'text' && required)?.key;
}

/** How a record is called: by its title, else its first required text, else the beginning of its id. */
export function titleOf(
  record: { id: string; [key: string]: unknown },
  fields: readonly { key: string; type: string; required?: boolean }[] = [],
): string {
  const first = fields.find(({ type, required }) => type === 'text' && required)?.key;
  for (const key of [...TITLES, ...(first === undefined ? [] : [first])]) {
    const value = record[key];
    if (typeof value === 'string' && value.trim() !== '') return value.slice(0, LONGEST_TITLE);
  }
  return record.id.slice(0, 8);
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** "0 B", "1.4 MiB". */
export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${NUMBER.format(unit === 0 ? value : Number(value.toPrecision(3)))} ${BYTE_UNITS[unit]}`;
}
