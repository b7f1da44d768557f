// Business rules in memory. A rule is part of its entity's definition: it is loaded with the catalog, and
// changing it raises the definition's version, so that no write runs outdated rules.
// Contract: decisions#rules.
import type { JsonObject } from '../runtime/text.ts';

const OPERATIONS = ['create', 'update', 'delete'] as const;
/** The operation on the record that triggers a rule. */
export type RuleOperation = (typeof OPERATIONS)[number];
export type Trigger = `${'before' | 'after'}_${RuleOperation}`;
export const TRIGGERS: readonly Trigger[] = [
  ...OPERATIONS.map((moment): Trigger => `before_${moment}`),
  ...OPERATIONS.map((moment): Trigger => `after_${moment}`),
];

export const PRIORITIES = ['low', 'normal', 'high'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** Texts in `values` and in a message may hold `{{field}}`. */
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
  /** Null where the rule always applies. */
  condition: string | null;
  action: Action;
}
