// `{{field}}` placeholders in the strings of a rule's action. A string that is a single placeholder becomes the
// record's value with its type; elsewhere a placeholder becomes the value's text, empty for null. Pure.
// Contract: decisions#rules.
import type { Entity } from '../../entities/field.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { type RecordRow, storedRow } from '../row.ts';

const PLACEHOLDER = /\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}/g;
const ONLY_PLACEHOLDER = /^\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*\}\}$/;

/** The value with all placeholders replaced, at any depth. */
export function render(value: unknown, entity: Entity, row: RecordRow): unknown {
  if (typeof value === 'string') return renderText(value, entity, row);
  if (Array.isArray(value)) return value.map((item) => render(item, entity, row));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, render(item, entity, row)]));
}

/** The field keys that the placeholders of a value name, each once. */
export function placeholdersIn(value: unknown): string[] {
  const text = JSON.stringify(value) ?? '';
  return [...new Set([...text.matchAll(PLACEHOLDER)].map(([, key]) => key as string))];
}

function renderText(text: string, entity: Entity, row: RecordRow): unknown {
  const [, only] = ONLY_PLACEHOLDER.exec(text) ?? [];
  if (only !== undefined) return fieldValue(only, entity, row);
  return text.replaceAll(PLACEHOLDER, (_, key: string) => asText(fieldValue(key, entity, row)));
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
