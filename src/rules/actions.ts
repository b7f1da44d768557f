// The actions of after rules: create a record, update the record itself, or send a message. They run as the system,
// through the same operations as API calls, one chain level deeper than the change that started them.
// Failures are those of the operations: 400, 404, 409. Contract: decisions#rules.
import type { Action, Entity } from '../entities/field.ts';
import type { Cause } from '../events/outbox.ts';
import { LIMITS } from '../limits.ts';
import { agentNamed, storeMessage } from '../messages/messages.ts';
import type { RecordRow } from '../records/row.ts';
import type { WriteContext } from '../records/write/context.ts';
import { renderAction } from '../records/write/triggers.ts';
import { createRecord, updateRecord } from '../records/write/write.ts';
import type { Tx } from '../runtime/sql.ts';

/** An after rule started by a change, with the after image of the record. */
export interface RuleRun extends RecordRow {
  position: number;
  event_id: string;
  rule_id: string;
  tenant_id: string;
  entity_id: string;
  depth: number;
  root_event_id: string;
  /** The number of runs in the chain when this run was queued. */
  runs: number;
  /** Attempts, including this one. */
  attempts: number;
}

/** The cause of the run's own events. */
export function runCause({ tenant_id: tenantId, depth, root_event_id: rootEventId, runs: chainRuns }: RuleRun): Cause {
  return { tenantId, actor: null, triggeredBy: 'rule', depth, rootEventId, chainRuns };
}

/** Performs the action in the context's transaction. Resolves to the `result` of rule.executed. */
export async function perform(
  context: WriteContext & { tx: Tx },
  entity: Entity,
  action: Action,
  run: RuleRun,
): Promise<{ action: Action['type'] } & Record<string, unknown>> {
  const filled = renderAction(action, entity, run);
  switch (filled.type) {
    case 'create_record': {
      const { row } = await createRecord(context, filled.entity, filled.values);
      return { action: filled.type, entity: filled.entity, record_id: row.id };
    }
    case 'update_record': {
      await updateRecord(context, entity.name, run.id, filled.values);
      return { action: filled.type, entity: entity.name, record_id: run.id };
    }
    case 'send_message': {
      const { message_id } = await send(context, filled, run);
      return { action: filled.type, message_id };
    }
    default:
      throw new Error(`an after rule has the action ${filled.type}`);
  }
}

/** The message continues the chain at the depth of the run. */
async function send(
  { tx, caller }: WriteContext & { tx: Tx },
  { to_agent, subject, body, priority }: Extract<Action, { type: 'send_message' }>,
  run: RuleRun,
): Promise<{ message_id: string }> {
  return storeMessage(tx, runCause(run), {
    from_agent: null,
    to_agent: await agentNamed(tx, caller, textOf(to_agent)),
    subject: textOf(subject).slice(0, LIMITS.message.subjectMax).toWellFormed(),
    body: textOf(body).slice(0, LIMITS.message.bodyMax).toWellFormed(),
    priority,
    in_reply_to: null,
    chain_depth: run.depth,
  });
}

/** A template that is a single `{{field}}` yields the field's value, which may be of any type. */
function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value ?? '');
}
