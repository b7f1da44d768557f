// A field as typed in its form, all texts; the definition that it stands for, and the changes that it asks for.
import type { Field, FieldType } from '../api/answers.ts';
import { type Attribute, TYPES } from './attributes.ts';

export interface Definition extends Field {
  pattern?: string | null;
}

export interface Draft {
  key: string;
  label: string;
  description: string;
  type: FieldType;
  required: boolean;
  unique: boolean;
  indexed: boolean;
  options: string;
  entity: string;
  onDelete: string;
  min: string;
  max: string;
  minLength: string;
  maxLength: string;
  pattern: string;
  /** As JSON or, for types whose values are texts, as it is. */
  default: string;
}

export function draftOf(field?: Definition): Draft {
  const text = (value: unknown): string => (value === undefined || value === null ? '' : String(value));
  const initial = field?.default;
  return {
    key: field?.key ?? '',
    label: field?.label ?? '',
    description: field?.description ?? '',
    type: field?.type ?? 'text',
    required: field?.required ?? false,
    unique: field?.unique ?? false,
    indexed: field?.indexed ?? false,
    options: (field?.options ?? []).join('\n'),
    entity: field?.entity ?? '',
    onDelete: field?.onDelete ?? 'restrict',
    min: text(field?.min),
    max: text(field?.max),
    minLength: text(field?.minLength),
    maxLength: text(field?.maxLength),
    pattern: text(field?.pattern),
    default: typeof initial === 'object' && initial !== null ? JSON.stringify(initial) : text(initial),
  };
}

const NUMBERS: readonly FieldType[] = ['integer', 'number'];

/** The definition as the API takes it; null removes an attribute that a field had. */
export function definitionOf(draft: Draft): Record<string, unknown> {
  const { type } = draft;
  const { attributes, canBeUnique, canBeIndexed } = TYPES[type];
  const one = (name: Attribute): unknown => {
    if (name === 'options') return optionsOf(draft);
    const text = draft[name].trim();
    if (text === '') return null;
    if (name === 'minLength' || name === 'maxLength') return Number(text);
    return (name === 'min' || name === 'max') && type !== 'decimal' ? Number(text) : text;
  };
  return {
    key: draft.key.trim(),
    type,
    label: draft.label.trim() || null,
    description: draft.description.trim() || null,
    required: draft.required,
    unique: canBeUnique && draft.unique,
    indexed: canBeIndexed && draft.indexed,
    ...Object.fromEntries(attributes.map((name) => [name, one(name)])),
    ...(attributes.includes('entity') ? {} : { default: defaultOf(draft) }),
  };
}

export function optionsOf({ options }: Draft): string[] {
  return [
    ...new Set(
      options
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean),
    ),
  ];
}

/** A text that is no value of the type goes to the service as it is, which says what is wrong with it. */
function defaultOf({ type, default: text }: Draft): unknown {
  if (text.trim() === '') return null;
  if (NUMBERS.includes(type)) return Number.isNaN(Number(text)) ? text : Number(text);
  if (type === 'boolean') return text === 'true';
  if (type !== 'json' && type !== 'multiselect') return text;
  try {
    return JSON.parse(text);
  } catch {
    return type === 'multiselect' ? text.split(',').map((part) => part.trim()) : text;
  }
}

/** The attributes that differ from those of the field. */
export function changesOf(field: Definition, draft: Draft): Record<string, unknown> {
  const before = definitionOf(draftOf(field));
  const after = definitionOf(draft);
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name] ?? null)),
  );
}

/** Attributes that stored values, conditions and programs do not depend on. */
const HARMLESS = ['label', 'description', 'indexed', 'default'];

/** Whether a change may break something, so that it is tried first. */
export function canBreak(changes: Record<string, unknown>): boolean {
  return Object.keys(changes).some((name) => !HARMLESS.includes(name));
}

/** What a change means to programs and values, besides what the service says of it. */
export function notesOn(field: Definition, changes: Record<string, unknown>): string[] {
  const { key, type } = field;
  const notes: string[] = [];
  if ('key' in changes)
    notes.push(
      `${key} becomes ${changes.key}. Programs that read or write ${key} fail until they use the new key; roles that list it follow.`,
    );
  if ('type' in changes)
    notes.push(`Values of ${key} are converted from ${type} to ${changes.type}; nothing is rounded or cut.`);
  return notes;
}
