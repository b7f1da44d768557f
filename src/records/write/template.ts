// `{{field}}` in what a rule writes: replaced by the record's value. A text that is nothing but one
// such place takes the value as it is, with its type; elsewhere the value's text is put in, nothing
// for a null. Pure. Contract: decisions#rules.
import type { Entity } from '../../entities/field.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { type RecordRow, storedRow } from '../row.ts';

const PLACE = /\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}/g;
const ONLY_PLACE = /^\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}$/;

/** The value with every place in its texts filled in, at any depth. */
export function render(value: unknown, entity: Entity, row: RecordRow): unknown {
  if (typeof value === 'string') return renderText(value, entity, row);
  if (Array.isArray(value)) return value.map((item) => render(item, entity, row));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, render(item, entity, row)]));
}

/** The keys that the places in a value name, each once. */
export function placeholdersIn(value: unknown): string[] {
  const text = JSON.stringify(value) ?? '';
  return [...new Set([...text.matchAll(PLACE)].map(([, key]) => key as string))];
}

function renderText(text: string, entity: Entity, row: RecordRow): unknown {
  const [, only] = ONLY_PLACE.exec(text) ?? [];
  if (only !== undefined) return placed(only, entity, row);
  return text.replaceAll(PLACE, (_, key: string) => asText(placed(key, entity, row)));
}

function placed(key: string, entity: Entity, row: RecordRow): unknown {
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
