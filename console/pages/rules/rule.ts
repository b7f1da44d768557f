// A rule as the API has it, and its parts in words.
export const TRIGGERS = {
  before_create: 'Before a record is created',
  before_update: 'Before a record is changed',
  before_delete: 'Before a record is deleted',
  after_create: 'After a record is created',
  after_update: 'After a record is changed',
  after_delete: 'After a record is deleted',
} as const;
export type Trigger = keyof typeof TRIGGERS;

export const ACTIONS = {
  reject: 'Refuse the change',
  set: 'Set values',
  create_record: 'Create another record',
  update_record: 'Change the record',
  send_message: 'Send a message to a bot',
} as const;
export type ActionType = keyof typeof ACTIONS;

export interface Action {
  type: ActionType;
  message?: string;
  values?: Record<string, unknown>;
  entity?: string;
  to_agent?: string;
  subject?: string;
  body?: string;
  priority?: string;
}

export interface Rule {
  id: string;
  name: string;
  entity: string;
  trigger: Trigger;
  condition: string | null;
  action: Action;
  priority: number;
  isActive: boolean;
}

/** The actions that a trigger allows. */
export function actionsOf(trigger: Trigger): ActionType[] {
  if (trigger === 'before_delete') return ['reject'];
  if (trigger.startsWith('before')) return ['reject', 'set'];
  return ['create_record', ...(trigger === 'after_delete' ? [] : ['update_record' as const]), 'send_message'];
}

/** "refuse: a closed task stays closed", "set status = closed". */
export function sayAction({ type, message, values, entity, to_agent, subject }: Action): string {
  const pairs = Object.entries(values ?? {}).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  if (type === 'reject') return `refuse: ${message}`;
  if (type === 'send_message') return `message ${to_agent}: ${subject}`;
  return `${type === 'create_record' ? `create ${entity} with` : 'set'} ${pairs.join(', ')}`;
}
