// What a listener sees of events, and how it is written down: once for all who see alike.
// The rights are those of REST: what cannot be read there is not pushed here, and where rows are
// filtered nothing is pushed at all. Contract: interface#sse, interface#websocket, decisions#sse.
import type { TenantCaller } from '../access/caller.ts';
import { allows, restrictionOn } from '../access/rights.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { EventRow } from '../events/event.ts';
import type { RelayedEvent } from '../events/relay.ts';
import { accessScopeOf } from '../records/access-scope.ts';
import { shape } from '../records/shape.ts';
import { type Frame, frameOf } from './channel.ts';

/** The fields of an entity that somebody sees in events. Equal keys see alike. */
export interface View {
  key: string;
  entity: Entity;
  fields: readonly Field[];
  isWhole: boolean;
}

/** The caller's view of an entity's events; null when it gets none of them. */
export function viewOf(catalog: Catalog, caller: TenantCaller, entity: Entity): View | null {
  if (!allows(caller.rights, 'read', entity.name)) return null;
  if (restrictionOn(caller.rights, entity.name)?.rowFilter !== undefined) return null;
  const { fields } = accessScopeOf(catalog, caller, entity);
  const isWhole = fields.length === entity.fields.length;
  return { key: isWhole ? '*' : fields.map(({ slot }) => slot).join(), entity, fields, isWhole };
}

/** An event on its way to the listeners of one tenant, written down at most once for each view. */
export class Rendering {
  readonly #frames = new Map<string, Frame>();
  readonly #texts = new Map<string, string>();
  /** The transaction that made it. */
  readonly xid: bigint;

  constructor(
    readonly event: RelayedEvent,
    private readonly tenantSlug: string,
  ) {
    this.xid = BigInt(event.xid);
  }

  /** The event of a record as the stream shows it. */
  frame(view: View): Frame {
    return kept(this.#frames, view.key, () => {
      const { recordId, row, triggeredBy } = this.event;
      const data = { fields: fieldsOf(row, view), triggered_by: triggeredBy };
      return this.#frame({ entity: view.entity.name, record_id: recordId, data });
    });
  }

  /** Any other event: its payload is what is shown. */
  payloadFrame(): Frame {
    return kept(this.#frames, '', () => this.#frame(this.event.payload ?? {}));
  }

  /** The event of a record as the WebSocket shows it. */
  text(view: View): string {
    return kept(this.#texts, view.key, () => {
      const { type, recordId, row } = this.event;
      const isGone = type === 'record.deleted' || row === null;
      const data = isGone ? { id: recordId } : flat(row, view);
      return JSON.stringify({ type, entity: view.entity.name, data });
    });
  }

  #frame(members: Record<string, unknown>): Frame {
    const { id, type, at } = this.event;
    return frameOf(type, { id: `evt_${id}`, type, timestamp: at, tenant: this.tenantSlug, ...members });
  }
}

function fieldsOf(row: EventRow | null, { fields }: View): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const { key, slot } of fields) shown[key] = row?.data[slot] ?? null;
  return shown;
}

function flat(row: EventRow, { entity, fields }: View): Record<string, unknown> {
  return { ...shape(row, entity, fields), created_at: row.created_at, updated_at: row.updated_at };
}

function kept<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
