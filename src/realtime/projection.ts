// What a listener sees of events, and how it is written down: once for all who see alike.
// The rights are those of REST: what cannot be read there is not pushed here, and where rows are
// filtered nothing is pushed at all. Contract: interface#sse, interface#websocket, decisions#sse.
import type { TenantCaller } from '../access/caller.ts';
import { allows, restrictionOn } from '../access/rights.ts';
import { visibleFields } from '../entities/access-scope.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { CommittedEvent, RecordRow } from '../events/event.ts';
import { shape } from '../records/shape.ts';
import { type SseFrame, sseFrame } from './sse-channel.ts';

/** The fields of an entity that somebody sees in events. Equal keys see alike. */
export interface Projection {
  key: string;
  entity: Entity;
  fields: readonly Field[];
  isComplete: boolean;
}

/** The caller's view of an entity's events; null when it gets none of them. */
export function projectionOf(caller: TenantCaller, entity: Entity): Projection | null {
  if (!allows(caller.rights, 'read', entity.name)) return null;
  if (restrictionOn(caller.rights, entity.name)?.rowFilter !== undefined) return null;
  const fields = visibleFields(caller, entity);
  const isComplete = fields.length === entity.fields.length;
  return { key: isComplete ? '*' : fields.map(({ slot }) => slot).join(), entity, fields, isComplete };
}

/** An event on its way to the listeners of one tenant, written down at most once for each view. */
export class EventSerializer {
  readonly #frames = new Map<string, SseFrame>();
  readonly #texts = new Map<string, string>();
  /** The transaction that made it. */
  readonly xid: bigint;

  constructor(
    readonly event: CommittedEvent,
    private readonly tenantSlug: string,
  ) {
    this.xid = BigInt(event.xid);
  }

  /** The event of a record as the stream shows it. */
  frame(view: Projection): SseFrame {
    return kept(this.#frames, view.key, () => {
      const { recordId, row, triggeredBy } = this.event;
      const data = { fields: fieldsOf(row, view), triggered_by: triggeredBy };
      return this.#frame({ entity: view.entity.name, record_id: recordId, data });
    });
  }

  /** Any other event: its payload is what is shown. */
  payloadFrame(): SseFrame {
    return kept(this.#frames, '', () => this.#frame(this.event.payload ?? {}));
  }

  /** The event of a record as the WebSocket shows it. */
  text(view: Projection): string {
    return kept(this.#texts, view.key, () => {
      const { type, recordId, row } = this.event;
      const isGone = type === 'record.deleted' || row === null;
      const data = isGone ? { id: recordId } : flat(row, view);
      return JSON.stringify({ type, entity: view.entity.name, data });
    });
  }

  #frame(members: Record<string, unknown>): SseFrame {
    const { id, type, at } = this.event;
    return sseFrame(type, { id: `evt_${id}`, type, timestamp: at, tenant: this.tenantSlug, ...members });
  }
}

function fieldsOf(row: RecordRow | null, { fields }: Projection): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const { key, slot } of fields) shown[key] = row?.data[slot] ?? null;
  return shown;
}

function flat(row: RecordRow, { entity, fields }: Projection): Record<string, unknown> {
  return { ...shape(row, entity, fields), created_at: row.created_at, updated_at: row.updated_at };
}

function kept<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
