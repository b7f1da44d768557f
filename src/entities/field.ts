// Entities, fields and business rules in memory. A field's values are stored under its slot, a name that never
// changes, so that renaming a field touches no record. During a transition a field also has a next definition. Rules
// are part of the definition, so that no write runs outdated ones.
// Contract: decisions#fields, decisions#rules.
import type { RecordEventType } from '../events/event.ts';
import { type FieldRef, SYSTEM_FIELDS } from '../expression/ast.ts';
import type { Sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';

export type FieldType =
  | 'text'
  | 'email'
  | 'url'
  | 'uuid'
  | 'integer'
  | 'number'
  | 'decimal'
  | 'boolean'
  | 'date'
  | 'datetime'
  | 'select'
  | 'multiselect'
  | 'json'
  | 'relation'
  | 'relations';

export type OnDelete = 'restrict' | 'set_null' | 'cascade';

/** Attributes that restrict the values of a field. */
export interface FieldRules {
  min?: number | string;
  max?: number | string;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  options?: string[];
}
export const FIELD_RULES = ['min', 'max', 'minLength', 'maxLength', 'pattern', 'options'] as const;

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
  /** For relations: the target entity's id. */
  targetId: string | null;
  onDelete: OnDelete | null;
  position: number;
  /** When the slot was assigned to the field: record versions from before have no value in it. Null when that is not known. */
  slotAt: string | null;
  /**
   * Whether the slot was assigned when the field's type changed: earlier record versions have the value in another slot, which
   * is not known any more.
   */
  isRetyped: boolean;
  /** How many characters of the field's text its indexes hold; null without a limit. */
  textMax?: number | null;
  /** The next definition, during a transition: until it ends, values must fit both. */
  next?: Field;
  /** In `next` only: the field is about to be dropped and accepts no values. */
  isClosed?: boolean;
  /** The field as expressions use it. */
  ref: FieldRef;
}

const OPERATIONS = ['create', 'update', 'delete'] as const;
/** The operation on the record that triggers a rule. */
export type RuleOperation = (typeof OPERATIONS)[number];
export type Trigger = `${'before' | 'after'}_${RuleOperation}`;
export const TRIGGERS: readonly Trigger[] = [
  ...OPERATIONS.map((operation): Trigger => `before_${operation}`),
  ...OPERATIONS.map((operation): Trigger => `after_${operation}`),
];

export const PRIORITIES = ['low', 'normal', 'high'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** Strings in `values` and in a message may contain `{{field}}`. */
export type Action =
  | { type: 'reject'; message: string }
  | { type: 'set'; values: JsonObject }
  | { type: 'create_record'; entity: string; values: JsonObject }
  | { type: 'update_record'; values: JsonObject }
  | { type: 'send_message'; to_agent: string; subject: string; body: string; priority: Priority };

export interface Rule {
  id: string;
  name: string;
  trigger: Trigger;
  /** Null for a rule that always applies. */
  condition: string | null;
  action: Action;
}

/** A relation field that points to an entity. */
export interface Reference {
  entity: Entity;
  field: Field;
}

/** System fields that an index may contain. */
export type IndexedSystemKey = 'createdAt' | 'updatedAt' | 'createdBy' | 'updatedBy';

/** An index that a definition declares: fields by id, system fields by key. */
export interface DeclaredIndex {
  columns: readonly { field: string; isDescending: boolean }[];
  /** Whether it is still being built: lists do not use it yet. */
  isBuilding?: boolean;
}

export interface Entity {
  id: string;
  name: string;
  label: string | null;
  description: string | null;
  isSystem: boolean;
  /** Incremented by every change of the definition; a write under an older version is repeated. */
  version: number;
  nextSlot: number;
  /** Whether a search also finds words that differ only by accents. */
  searchFolding: boolean;
  /** Whether some records still have the search terms of the previous `searchFolding`. */
  isSearchChanging: boolean;
  /**
   * Whether the records' ids are in the order of `createdAt`: all ids were made by the service, and none was brought by a file.
   */
  isInIdOrder: boolean;
  indexes: readonly DeclaredIndex[];
  /** Slots of retired fields: records may still hold their values, which cleanup removes. */
  retiredSlots: readonly string[];
  /**
   * Ids of the active webhook subscriptions by event type. The entity's own id stands for all subscriptions that judge a change
   * before they get a delivery (webhooks/dispatch/fan-out.ts). A change increments the version.
   */
  subscribed: Readonly<Partial<Record<RecordEventType, readonly string[]>>>;
  fields: readonly Field[];
  byKey: ReadonlyMap<string, Field>;
  /** Relations of any entity to this one. */
  references: readonly Reference[];
  /** Active business rules, in order of execution. */
  rules: readonly Rule[];
  /** The entity's own partition of entity_records. */
  table: Sql;
  tableName: string;
  tenantId: string;
  schema: string;
  createdAt: string;
  updatedAt: string;
}

/** Keys that no custom field may have. */
export const RESERVED_KEYS: ReadonlySet<string> = new Set([...Object.keys(SYSTEM_FIELDS), 'name']);

/** The partition that holds an entity's records. */
export function tableNameOf(entityId: string): string {
  return `r_${entityId.replaceAll('-', '')}`;
}
