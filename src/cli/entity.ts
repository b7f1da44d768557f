// An entity as the service describes it, and field values from command-line texts: `amount=12` is a number for an integer field
// and a text for a text field.
// Failures: usage errors that name the field.
import { UsageError } from './failures.ts';

export interface FieldView {
  key: string;
  type: string;
  options?: string[];
  entity?: string;
  [attribute: string]: unknown;
}

export interface EntityView {
  name: string;
  label: string | null;
  fields: FieldView[];
  [attribute: string]: unknown;
}

export function entityPath(name: string): string {
  return `/api/entities/${encodeURIComponent(name)}`;
}

export function recordsPath(entity: string): string {
  return `${entityPath(entity)}/records`;
}

export function recordPath(entity: string, id: string): string {
  return `${recordsPath(entity)}/${encodeURIComponent(id)}`;
}

/** Converts `field=value` texts to the types of the fields. An empty value clears the field. */
export function valuesOf(fields: readonly FieldView[], pairs: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError(`${pair} is not of the form field=value`);
      const key = pair.slice(0, at);
      // The service reports a field that does not exist.
      const type = fields.find((field) => field.key === key)?.type ?? 'text';
      return [key, typedValue(key, type, pair.slice(at + 1))];
    }),
  );
}

function typedValue(key: string, type: string, text: string): unknown {
  if (text === '') return null;
  if (type === 'integer' || type === 'number') {
    const value = Number(text);
    if (Number.isNaN(value)) throw new UsageError(`${key} takes a number, not ${text}`);
    return value;
  }
  if (type === 'boolean') {
    if (text !== 'true' && text !== 'false') throw new UsageError(`${key} takes true or false, not ${text}`);
    return text === 'true';
  }
  if (type === 'multiselect' || type === 'relations') return text.split(',').map((one) => one.trim());
  if (type === 'json') return parsed(key, text);
  return text;
}

function parsed(key: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${key} takes JSON: ${(error as Error).message}`);
  }
}
