// Which stored values of one field type can be converted to another, and how. Nothing is rounded, truncated
// or guessed: a value without an exact counterpart does not convert. The target type's parser checks the
// result, so a conversion may return a value that the type rejects. Pure.
// Contract: decisions#field-changes.
import { compareDecimal } from '../expression/compare.ts';
import type { FieldType } from './field.ts';

/** The value for the target's parser; undefined when there is no counterpart. */
type Convert = (value: unknown) => unknown;
export type Conversions = Readonly<Partial<Record<FieldType, Convert>>>;

const same: Convert = (value) => value;
const asList: Convert = (value) => [value];
const onlyItem: Convert = (value) => {
  const items = value as unknown[];
  return items.length === 1 ? items[0] : undefined;
};

const STRINGS = ['text', 'email', 'url', 'uuid', 'date', 'datetime', 'select'] as const;
const NUMBERS = ['integer', 'number', 'decimal'] as const;

function from(types: readonly FieldType[], convert: Convert): Conversions {
  return Object.fromEntries(types.map((type) => [type, convert]));
}

export const toFormat: Conversions = { ...from(STRINGS, same), ...from([...NUMBERS, 'boolean'], String), json: same };
export const toText: Conversions = { ...toFormat, relation: same, multiselect: onlyItem };
export const toUuid: Conversions = { ...toFormat, relation: same };
export const toSelect: Conversions = { ...toFormat, multiselect: onlyItem };
export const toDate: Conversions = { ...toFormat, datetime: midnightOnly };
export const toDateTime: Conversions = { ...toFormat, date: (value) => `${value}T00:00:00.000Z` };
export const toMultiselect: Conversions = { ...from(STRINGS, asList), json: same };
export const toNumber: Conversions = { ...from([...STRINGS, ...NUMBERS], exactNumber), boolean: Number, json: same };
export const toDecimal: Conversions = { ...from([...STRINGS, ...NUMBERS], plainDigits), boolean: Number, json: same };
export const toBoolean: Conversions = { ...from([...STRINGS, ...NUMBERS], toTruth), json: same };
export const toJson: Conversions = {
  ...from([...STRINGS, ...NUMBERS, 'boolean', 'multiselect', 'relation', 'relations'], same),
};
export const toRelation: Conversions = { relations: onlyItem };
export const toRelations: Conversions = { relation: asList };

/** Only midnight converts to a date: any other time of day would be lost. */
function midnightOnly(value: unknown): unknown {
  const [day, time] = (value as string).split('T');
  return time === '00:00:00.000Z' ? day : undefined;
}

function toTruth(value: unknown): unknown {
  if (value === 'true' || value === 1 || value === '1') return true;
  return value === 'false' || value === 0 || value === '0' ? false : undefined;
}

/** A decimal without leading zeros or plus sign: those mark a postcode or a telephone number. */
const PLAIN = /^-?(0|[1-9]\d*)(\.\d+)?$/;

function plainDigits(value: unknown): unknown {
  const digits = String(value);
  return PLAIN.test(digits) ? digits : undefined;
}

function exactNumber(value: unknown): unknown {
  if (typeof value === 'number') return value;
  const digits = plainDigits(value) as string | undefined;
  if (digits === undefined) return undefined;
  const number = Number(digits);
  const written = plainDigits(number) as string | undefined;
  return written !== undefined && compareDecimal(written, digits) === 0 ? number : undefined;
}
