// The ids of related records by a field that tells them apart, such as a number or a name: looked up for the lines of a
// part together, and kept for the next parts. A value that none has, or more than one, has no id.

import type { Entity, Field, Page, Row } from '../../api/answers.ts';
import { get } from '../../api/call.ts';

/** Of one condition: terms and characters. */
const PER_CALL = 50;
const MOST_CHARACTERS = 1_800;
const ROWS_PER_CALL = 100;
const MOST_KEPT = 50_000;
const TYPES = ['text', 'email', 'url', 'select', 'integer', 'decimal'];

/** The fields by which records of an entity can be named: the unique ones, and the one that is their title. */
export function namingFields({ fields }: Entity): Field[] {
  const title = fields.find(({ key, type }) => type === 'text' && ['title', 'label', 'subject'].includes(key));
  return fields.filter((field) => TYPES.includes(field.type) && (field.unique || field === title));
}

export class Lookup {
  #ids = new Map<string, string | 'many' | null>();

  constructor(
    readonly tenant: string,
    readonly entity: string,
    readonly field: Field,
  ) {}

  /** Looks up the values that are not known yet. */
  async learn(values: Iterable<string>): Promise<void> {
    const wanted = [...new Set(values)];
    if (this.#ids.size + wanted.length > MOST_KEPT) this.#ids = new Map();
    const missing = wanted.filter((value) => !this.#ids.has(value));
    for (const group of groupsOf(missing)) await this.#ask(group);
  }

  idOf(value: string): { value: string } | { problem: string } {
    const id = this.#ids.get(value) ?? null;
    if (id === 'many') return { problem: `more than one of ${this.entity} has ${this.field.key} ${value}` };
    return id === null ? { problem: `none of ${this.entity} has ${this.field.key} ${value}` } : { value: id };
  }

  async #ask(group: readonly string[]): Promise<void> {
    const { key, unique } = this.field;
    for (const value of group) this.#ids.set(value, null);
    const sendable = group.filter((value) => this.#literal(value) !== null && value.length <= MOST_CHARACTERS);
    if (sendable.length === 0) return;
    const filters = `${key} in (${sendable.map((value) => this.#literal(value)).join(', ')})`;
    const { items, nextCursor } = await get<Page<Row>>(`/api/entities/${this.entity}/records`, {
      tenant: this.tenant,
      isOwn: true,
      query: { filters, fields: key, limit: ROWS_PER_CALL, cursor: '', count: 'none' },
      keepEmpty: ['cursor'],
    });
    if (!unique && nextCursor && sendable.length > 1) {
      for (const value of sendable) await this.#ask([value]);
      return;
    }
    const byValue = new Map(sendable.map((value) => [this.#stored(value), value]));
    for (const row of items) {
      const value = byValue.get(this.#stored(String(row[key])));
      if (value !== undefined) this.#ids.set(value, this.#ids.get(value) === null ? row.id : 'many');
    }
  }

  /** As conditions write it; null for what the field cannot hold. */
  #literal(value: string): string | null {
    if (this.field.type !== 'integer' && this.field.type !== 'decimal') return `"${value.replace(/[\\"]/g, '\\$&')}"`;
    return /^[+-]?\d+(\.\d+)?$/.test(value) ? value.replace('+', '') : null;
  }

  /** Numbers of one value are the same, however they are written. */
  #stored(value: string): string {
    return this.field.type === 'integer' || this.field.type === 'decimal' ? String(Number(value)) : value;
  }
}

function groupsOf(values: readonly string[]): string[][] {
  const groups: string[][] = [];
  let length = MOST_CHARACTERS;
  for (const value of values) {
    length += value.length + 6;
    if (length > MOST_CHARACTERS || (groups.at(-1)?.length ?? 0) >= PER_CALL) {
      groups.push([]);
      length = value.length + 6;
    }
    groups.at(-1)?.push(value);
  }
  return groups;
}
