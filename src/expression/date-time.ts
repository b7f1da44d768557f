// Parses date and date-time literals into the stored form: "YYYY-MM-DD" and "YYYY-MM-DDTHH:mm:ss.sssZ"
// (UTC; fractions below a millisecond are truncated). Both sort as text in chronological order, from year
// 0001 to 9999. Anything else parses to undefined.
// Contract: decisions#expressions.

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const DATETIME = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d{2}):?(\d{2}))$/;
const NOW = /^\$now(?:([+-])(\d{1,9})([smhdw]))?$/;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1e3, m: 60e3, h: 3_600e3, d: 86_400e3, w: 604_800e3 };

/** An existing calendar date, unchanged. */
export function parseDate(text: string): string | undefined {
  return DATE.test(text) && midnight(text) !== undefined ? text : undefined;
}

/** A date with a time and an offset, or a date (midnight UTC). */
export function parseDateTime(text: string): string | undefined {
  if (DATE.test(text)) return midnight(text);
  const [, date = '', minute, second = '00', fraction = '', sign, hours = '0', minutes = '0'] =
    DATETIME.exec(text) ?? [];
  if (midnight(date) === undefined || Number(hours) > 23 || Number(minutes) > 59) return undefined;
  const offsetMs = Number(hours) * 3_600e3 + Number(minutes) * 60e3;
  const local = `${date}T${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}Z`;
  const time = new Date(local);
  // JavaScript may accept 24:00 or second 60 as the next day.
  if (storable(time) !== local) return undefined;
  return storable(new Date(time.getTime() - (sign === '-' ? -offsetMs : offsetMs)));
}

/** `$now`, `$now-7d`, `$now+2h`; units s, m, h, d, w. */
export function parseRelativeTime(text: string, now: Date): string | undefined {
  const found = NOW.exec(text);
  if (!found) return undefined;
  const [, sign, count = '0', unit = 's'] = found;
  const distanceMs = Number(count) * (UNIT_MS[unit] ?? 0);
  return storable(new Date(now.getTime() + (sign === '-' ? -distanceMs : distanceMs)));
}

function midnight(date: string): string | undefined {
  const text = `${date}T00:00:00.000Z`;
  return storable(new Date(text)) === text ? text : undefined;
}

function storable(time: Date): string | undefined {
  if (Number.isNaN(time.getTime())) return undefined;
  const text = time.toISOString();
  return text.length === 24 && text >= '0001' ? text : undefined;
}
