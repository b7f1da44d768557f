// What an entity and its fields are, in memory. A field's values are stored under its slot, a name
// that never changes, so renaming a field touches no record. A field that is being changed carries what it is to become.
// Contract: decisions#fields.
import type { RecordEventType } from '../events/event.ts';
import { type FieldRef, type FieldType, SYSTEM_FIELDS } from '../expression/ast.ts';
import type { Sql } from '../runtime/sql.ts';
import type { Rule } from './rule.ts';

export const FIELD_TYPES: readonly FieldType[] = [
  'text',
  'email',
  'url',
  'uuid',
  'integer',
  'number',
  'decimal',
  'boolean',
  'date',
  'datetime',
  'select',
  'multiselect',
  'json',
  'relation',
  'relations',
];

/** Types whose words `search` looks at. */
export const SEARCHED: ReadonlySet<FieldType> = new Set(['text', 'email', 'url']);
/** Types held as text, which a B-tree entry holds up to LIMITS.indexedTextMax characters of. */
export const TEXTUAL: ReadonlySet<FieldType> = new Set(['text', 'email', 'url', 'select']);

export type OnDelete = 'restrict' | 'set_null' | 'cascade';

/** Attributes that narrow the values a field accepts. */
export interface FieldRules {
  min?: number | string;
  max?: number | string;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  options?: readonly string[];
}

export interface Field extends FieldRules {
  id: string;
  key: string;
  slot: string;
  type: FieldType;
  label: string | null;
  description: string | null;
  required: boolean;
  unique: boolean;
  indexed: boolean;
  /** The value in its stored form; undefined without a default. */
  default: unknown;
  /** Relations: the target entity's id. */
  targetId: string | null;
  onDelete: OnDelete | null;
  position: number;
  /** What the field is being changed into. Until that is done a value must fit both. */
  next?: Field;
  /** In `next` only: the field is about to be dropped and takes no more values. */
  isClosed?: boolean;
  /** The same field as expressions know it. */
  ref: FieldRef;
}

/** A relation field of some entity that points here. */
export interface Reference {
  entity: Entity;
  field: Field;
}

export interface Entity {
  id: string;
  name: string;
  label: string | null;
  description: string | null;
  isSystem: boolean;
  /** Grows with every change of the definition; a write made against an older one is done again. */
  version: number;
  nextSlot: number;
  /** Slots that belong to no field and may still hold values, to be removed. */
  retiredSlots: readonly string[];
  /** The active webhook subscriptions, by their ids, that ask for each type of event; the version grows when that changes. */
  subscribed: Readonly<Partial<Record<RecordEventType, readonly string[]>>>;
  fields: readonly Field[];
  byKey: ReadonlyMap<string, Field>;
  /** Relations of any entity to this one. */
  references: readonly Reference[];
  /** Active business rules, in the order in which they act. */
  rules: readonly Rule[];
  /** The entity's own partition of entity_records. */
  table: Sql;
  tableName: string;
  schema: string;
  createdAt: string;
  updatedAt: string;
}

/** Names that no custom field may have. */
export const RESERVED_KEYS: ReadonlySet<string> = new Set([...Object.keys(SYSTEM_FIELDS), 'name']);

/** The partition that holds an entity's records. */
export function tableNameOf(entityId: string): string {
  return `r_${entityId.replaceAll('-', '')}`;
}
