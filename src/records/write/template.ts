// `{{field}}` placeholders in the strings of a rule's action. A string that is a single placeholder becomes the record's value
// with its type; elsewhere a placeholder becomes the value's text, empty for null. Pure.
// Failures: 400 BUSINESS_RULE_ERROR beyond the limit. Contract: decisions#rules, neighbours#byte-budgets.
import type { Entity } from '../../entities/field.ts';
import { ServiceError } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { LIMITS } from '../../limits.ts';
import { jsonBytes } from '../../runtime/text.ts';
import { type RecordRow, storedRow } from '../row.ts';

const PLACEHOLDER = /\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}/g;
/** Bytes of the quotes around a text in JSON. */
const QUOTES = 2;
const ONLY_PLACEHOLDER = /^\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}$/;

/**
 * The value with all placeholders replaced, at any depth. 400 BUSINESS_RULE_ERROR, before any text is built, when the
 * texts with placeholders take more than the limit together.
 */
export function render(value: unknown, entity: Entity, row: RecordRow, rule?: string): unknown {
  return new Template(entity, row, rule).render(value);
}

/** The field keys that the placeholders of a value name, each once. */
export function placeholdersIn(value: unknown): string[] {
  const keys = new Set<string>();
  // Searches each text by itself: in the JSON of the whole value, a line break in a placeholder would become the letter n.
  JSON.stringify(value, (_, item) => {
    if (typeof item === 'string') for (const [, key] of item.matchAll(PLACEHOLDER)) keys.add(key as string);
    return item;
  });
  return [...keys];
}

class Template {
  /** Texts of fields, and their bytes as JSON; one that occurs often is converted once. */
  readonly #texts = new Map<string, { text: string; bytes: number }>();
  #bytes = 0;

  constructor(
    private readonly entity: Entity,
    private readonly row: RecordRow,
    private readonly rule: string | undefined,
  ) {}

  render(value: unknown): unknown {
    if (typeof value === 'string') return this.#renderText(value);
    if (Array.isArray(value)) return value.map((item) => this.render(item));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.render(item)]));
  }

  #renderText(text: string): unknown {
    const [, only] = ONLY_PLACEHOLDER.exec(text) ?? [];
    if (only !== undefined) {
      const value = fieldValue(only, this.entity, this.row);
      this.#use(jsonBytes(value));
      return value;
    }
    const keys = [...text.matchAll(PLACEHOLDER)].map(([, key]) => key as string);
    if (keys.length === 0) return text;
    this.#use(keys.reduce((sum, key) => sum + this.#textOf(key).bytes, jsonBytes(text)));
    return text.replaceAll(PLACEHOLDER, (_, key: string) => this.#textOf(key).text);
  }

  #textOf(key: string): { text: string; bytes: number } {
    const known = this.#texts.get(key);
    if (known !== undefined) return known;
    const text = asText(fieldValue(key, this.entity, this.row));
    const made = { text, bytes: jsonBytes(text) - QUOTES };
    this.#texts.set(key, made);
    return made;
  }

  #use(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= LIMITS.rules.filledBytesMax) return;
    throw new ServiceError(
      'BUSINESS_RULE_ERROR',
      `${this.rule === undefined ? 'the rule' : `the rule "${this.rule}"`} fills in more than ` +
        `${LIMITS.rules.filledBytesMax} bytes; shorten the record's values, or name fewer fields in the rule`,
    );
  }
}

function fieldValue(key: string, entity: Entity, row: RecordRow): unknown {
  const field = entity.byKey.get(key);
  if (field !== undefined) return row.data[field.slot] ?? null;
  const stored: Record<string, unknown> = { ...storedRow(row, entity.id) };
  return Object.hasOwn(SYSTEM_FIELDS, key) ? (stored[key] ?? null) : null;
}

function asText(value: unknown): string {
  if (value === null) return '';
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) return value.join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
