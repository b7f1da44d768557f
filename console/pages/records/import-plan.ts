// What becomes of the columns of a file: left out, a field, a relation by a field of the other entity, or a field that is
// made first. And the lines as the API takes them, with the problems that show before anything is sent.

import type { Entity, Field, FieldType } from '../../api/answers.ts';
import { post } from '../../api/call.ts';
import { keyFrom, keyProblem } from '../../schema/attributes.ts';
import { Lookup, namingFields } from './import-lookup.ts';
import type { Source, SourceRecord } from './import-source.ts';
import { convert, guessType, type Reading } from './import-values.ts';

/** By column: '' leaves it out, `field`, `field/key` of the other entity, `+type` makes a field. */
export type Mapping = Readonly<Record<string, string>>;

export const targetOf = (field: string, by?: string): string => (by === undefined ? field : `${field}/${by}`);
export const isNew = (target: string): boolean => target.startsWith('+');
/** The field that a column goes into; '' for none. */
export const fieldOf = (target: string): string => (isNew(target) ? '' : (target.split('/')[0] as string));

const PLAIN: Reading = { isCommaDecimal: false, isDayFirst: true };
const NAMES = ['name', 'fullname', 'title', 'label', 'subject'];
const plain = (name: string): string => name.toLowerCase().replace(/[\s_-]/g, '');

/**
 * Columns by the field of the same key or label, and relations by `relation.field`. The title, when no column has its name,
 * is the first one of texts that are all different.
 */
export function matched(entity: Entity, { columns, samples }: Source, entities: readonly Entity[]): Mapping {
  const taken = new Set<string>();
  const found = new Map<string, string>();
  const take = (column: string, field: Field | undefined): void => {
    if (field === undefined || taken.has(field.key) || found.has(column)) return;
    taken.add(field.key);
    found.set(column, field.key);
  };
  for (const nameOf of [({ key }: Field) => key, ({ key, label }: Field) => label ?? key]) {
    for (const column of columns) {
      take(
        column,
        entity.fields.find((field) => plain(nameOf(field)) === plain(nameIn(field, column))),
      );
    }
  }
  const title = entity.fields.find(({ type, required }) => type === 'text' && required);
  const isTitle = (column: string): boolean => {
    const texts = textsOf(samples, column);
    return (
      texts.length === samples.length && new Set(texts).size === texts.length && guessType(texts, PLAIN) === 'text'
    );
  };
  const free = columns.filter((column) => !found.has(column));
  const named = free.find((column) => NAMES.includes(plain(column))) ?? free.find(isTitle);
  if (named !== undefined) take(named, title);
  return Object.fromEntries(
    columns.map((column) => {
      const field = entity.fields.find(({ key }) => key === found.get(column));
      return [column, field === undefined ? '' : targetFor(field, column, textsOf(samples, column), entities)];
    }),
  );
}

/** Relations have a column of their name, or of their name and a field of the other entity, such as `company.code`. */
const nameIn = ({ entity }: Field, column: string): string =>
  entity == null ? column : (column.split('.')[0] as string);

/** Relations by id when the column has ids, else by the field that the column names, or the first that can name records. */
function targetFor(field: Field, column: string, texts: readonly string[], entities: readonly Entity[]): string {
  const other = entities.find(({ name }) => name === field.entity);
  const naming = other === undefined ? [] : namingFields(other);
  const [, by] = column.split('.');
  const named = naming.find(({ key }) => by !== undefined && plain(key) === plain(by));
  const isIds = texts.every((text) => 'value' in convert(field, text, PLAIN));
  if (named === undefined && isIds) return field.key;
  return targetOf(field.key, (named ?? naming[0])?.key);
}

/** Fields for all columns that have none, of the types that their first values suggest. */
export function withNewFields({ columns, samples }: Source, mapping: Mapping, reading: Reading): Mapping {
  const made = columns
    .filter((column) => mapping[column] === '')
    .map((column) => [column, `+${guessType(textsOf(samples, column), reading)}`]);
  return { ...mapping, ...Object.fromEntries(made) };
}

export function textsOf(samples: readonly SourceRecord[], column: string): string[] {
  return samples.map(({ values }) => asText(values[column])).filter((text) => text.trim() !== '');
}

export function asText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Creates the fields that the mapping asks for, and says the mapping to them after each: a later one may be refused. */
export async function makeFields(
  tenant: string,
  entity: Entity,
  mapping: Mapping,
  onMade: (mapping: Mapping) => void,
): Promise<Mapping> {
  const taken = new Set(entity.fields.map(({ key }) => key.toLowerCase()));
  let made = mapping;
  for (const [column, target] of Object.entries(mapping)) {
    if (!isNew(target)) continue;
    const key = newKey(column, taken);
    taken.add(key);
    const field = { key, label: column.slice(0, 100), type: target.slice(1) as FieldType };
    await post(`/api/entities/${entity.name}/fields`, field, { tenant });
    made = { ...made, [column]: key };
    onMade(made);
  }
  return made;
}

export function newKey(column: string, taken: ReadonlySet<string>): string {
  const from = keyFrom(column).slice(0, 50) || 'column';
  const first = keyProblem(from) === undefined ? from : `${from}_value`;
  let key = first;
  for (let count = 2; taken.has(key); count += 1) key = `${first}_${count}`;
  return key;
}

export type Prepared = { values: Record<string, unknown> } | { problem: string };

interface Part {
  column: string;
  field: Field;
  lookup: Lookup | null;
}

/** Lines of a file as records of an entity. */
export class Plan {
  readonly #parts: Part[];
  readonly #required: Field[];

  constructor(
    tenant: string,
    fields: readonly Field[],
    mapping: Mapping,
    private readonly reading: Reading,
    entities: readonly Entity[],
  ) {
    this.#parts = Object.entries(mapping).flatMap(([column, target]): Part[] => {
      const field = fields.find(({ key }) => key === fieldOf(target));
      if (field === undefined) return [];
      const [, by] = target.split('/');
      const other = entities.find(({ name }) => name === field.entity);
      const naming = other?.fields.find(({ key }) => key === by);
      const lookup = naming === undefined ? null : new Lookup(tenant, other?.name ?? '', naming);
      return [{ column, field, lookup }];
    });
    this.#required = fields.filter((field) => field.required && field.default == null);
  }

  /** Looks up the related records of some lines. */
  async learn(records: readonly SourceRecord[]): Promise<void> {
    for (const { column, field, lookup } of this.#parts) {
      await lookup?.learn(records.flatMap(({ values }) => namesIn(field, values[column])));
    }
  }

  /** After `learn`. All problems of a line in one sentence. */
  prepare({ values: given, problem }: SourceRecord): Prepared {
    if (problem !== undefined) return { problem };
    const values: Record<string, unknown> = {};
    const problems: string[] = [];
    for (const { column, field, lookup } of this.#parts) {
      const value = given[column];
      if (value === undefined || value === null) continue;
      const result =
        lookup !== null
          ? related(field, value, lookup)
          : typeof value === 'string'
            ? convert(field, value, this.reading)
            : { value };
      if ('problem' in result) problems.push(said(field, value, result.problem));
      else if (result.value !== null) values[field.key] = result.value;
    }
    return problems.length > 0 ? { problem: problems.join('; ') } : { values };
  }

  /** A refusal of the service, with the values that it is about. */
  explained(message: string, { values }: SourceRecord): string {
    const parts = message.split('; ').map((part) => {
      const of = this.#parts.find(({ field }) => part.startsWith(`${field.key}: `));
      const value = of && values[of.column];
      return of === undefined || value == null ? part : said(of.field, value, part.slice(of.field.key.length + 2));
    });
    return parts.join('; ');
  }

  /** What the service would also refuse, as far as the page can tell: `prepare`, required fields, lengths. */
  check(record: SourceRecord): Prepared {
    const prepared = this.prepare(record);
    if ('problem' in prepared) return prepared;
    const { values } = prepared;
    const problems = this.#required.filter(({ key }) => !(key in values)).map(({ key }) => `${key}: is required`);
    for (const { field } of this.#parts) {
      const value = values[field.key];
      if (typeof value !== 'string') continue;
      const length = [...value].length;
      if (length < (field.minLength ?? 0))
        problems.push(said(field, value, `has less than ${field.minLength} characters`));
      if (field.maxLength != null && length > field.maxLength)
        problems.push(said(field, value, `has more than ${field.maxLength} characters`));
      if (field.type === 'email' && !/^[^\s@]+@[^\s@]+\.[^\s@]{2,}$/.test(value))
        problems.push(said(field, value, 'is not an e-mail address'));
      if (field.type === 'url' && !(/^https?:\/\//i.test(value) && URL.canParse(value)))
        problems.push(said(field, value, 'is not a web address'));
    }
    return problems.length > 0 ? { problem: problems.join('; ') } : prepared;
  }
}

const LONGEST_SAID = 60;

/** A problem of a field with the value that has it: `stage: "closed" is not one of the options`. */
function said({ key }: Field, value: unknown, problem: string): string {
  const text = asText(value);
  // Those of relations name it themselves.
  if (problem.includes(text)) return `${key}: ${problem}`;
  const shown = text.length > LONGEST_SAID ? `${text.slice(0, LONGEST_SAID)}…` : text;
  return `${key}: "${shown}" ${problem}`;
}

/** What a cell calls the related records. */
function namesIn({ type }: Field, value: unknown): string[] {
  if (Array.isArray(value)) return value.map(asText);
  const text = asText(value).trim();
  const names = type === 'relations' ? text.split(/[,;|]/).map((one) => one.trim()) : [text];
  return names.filter((one) => one !== '');
}

function related(field: Field, value: unknown, lookup: Lookup): { value: unknown } | { problem: string } {
  const ids: string[] = [];
  for (const name of namesIn(field, value)) {
    const found = lookup.idOf(name);
    if ('problem' in found) return found;
    ids.push(found.value);
  }
  if (field.type === 'relations') return { value: ids };
  return { value: ids[0] ?? null };
}
