// What a connection sees of an event, serialized once for each distinct projection. The rights are the same as over REST: fields that
// cannot be read are left out, and an entity with a row filter yields no events at all.
// Contract: interface#sse, interface#websocket, decisions#sse.
import type { TenantCaller } from '../access/caller.ts';
import { allows, restrictionOn } from '../access/rights.ts';
import { hasRowFilter, visibleFields } from '../entities/access-scope.ts';
import type { Catalog } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import type { CommittedEvent, Erased, RecordRow } from '../events/event.ts';
import { shape } from '../records/row.ts';
import { NEUTRAL_FAILURE } from '../records/write/triggers.ts';
import { type SseFrame, sseFrame } from './sse-channel.ts';

/** The visible fields of an entity. Two projections of an entity with the same key have the same fields. */
export interface Projection {
  key: string;
  entity: Entity;
  fields: readonly Field[];
  isComplete: boolean;
}

/** Null when the caller receives no events of the entity. */
export function projectionOf(caller: TenantCaller, entity: Entity): Projection | null {
  if (!allows(caller.rights, 'read', entity.name)) return null;
  if (hasRowFilter(caller, entity)) return null;
  const fields = visibleFields(caller, entity);
  const isComplete = fields.length === entity.fields.length;
  return { key: isComplete ? '*' : fields.map(({ slot }) => slot).join(), entity, fields, isComplete };
}

/** Serializes an event at most once per projection and format. For a large event, only the result for the last projection is kept. */
export class EventSerializer {
  #made = 0;
  readonly #frames = new Map<string, SseFrame>();
  readonly #texts = new Map<string, string>();
  /** The transaction that wrote the event, and its number. */
  readonly xid: bigint;
  readonly seq: number;

  constructor(
    readonly event: CommittedEvent,
    private readonly catalog: Catalog,
    private readonly tenantSlug: string,
    private readonly isLarge = false,
  ) {
    this.xid = BigInt(event.xid);
    this.seq = event.seq;
  }

  /** The bytes made since the last call: of frames, which connections share, and of texts, which each connection copies. */
  takeMade(): number {
    const made = this.#made;
    this.#made = 0;
    return made;
  }

  /** A record event in the SSE format. */
  recordFrame(projection: Projection): SseFrame {
    return this.#cached(this.#frames, projection.key, () => {
      const { recordId, row, triggeredBy } = this.event;
      const data = { fields: fieldsOf(row, projection, this.event.erased), triggered_by: triggeredBy };
      return this.#frame({ entity: projection.entity.name, record_id: recordId, data });
    });
  }

  /** Any other event: its payload. Rule events leave out what the caller may not see. */
  payloadFrame(caller: TenantCaller): SseFrame {
    return this.#cached(this.#frames, isNeutralFor(caller, this.catalog, this.event) ? 'neutral' : '', () =>
      this.#frame(payloadFor(caller, this.catalog, this.event)),
    );
  }

  /** A record event in the WebSocket format. */
  text(projection: Projection): string {
    const text = this.#cached(this.#texts, projection.key, () => {
      const { type, recordId, row } = this.event;
      const isDeleted = type === 'record.deleted' || row === null;
      const data = isDeleted ? { id: recordId } : flat(row, projection);
      return JSON.stringify({ type, entity: projection.entity.name, data });
    });
    this.#made += text.length;
    return text;
  }

  #frame(members: Record<string, unknown>): SseFrame {
    const { id, type, at } = this.event;
    const frame = sseFrame(type, { id: `evt_${id}`, type, timestamp: at, tenant: this.tenantSlug, ...members });
    this.#made += frame.size;
    return frame;
  }

  #cached<V>(map: Map<string, V>, key: string, make: () => V): V {
    const known = map.get(key);
    if (known !== undefined) return known;
    if (this.isLarge && this.event.row !== null) map.clear();
    const value = make();
    map.set(key, value);
    return value;
  }
}

function isNeutralFor(caller: TenantCaller, catalog: Catalog, event: CommittedEvent): boolean {
  return isRuleEvent(event) && !seesTarget(caller, catalog, event);
}

/** What the caller may see of an event that is not a record event. */
export function payloadFor(caller: TenantCaller, catalog: Catalog, event: CommittedEvent): Record<string, unknown> {
  const { target: _, ...payload } = event.payload ?? {};
  return isNeutralFor(caller, catalog, event) ? neutral(payload) : payload;
}

function isRuleEvent({ type }: CommittedEvent): boolean {
  return type === 'rule.executed' || type === 'rule.failed';
}

/**
 * Whether the caller may see the whole entity that the rule wrote to: a result names its record, and an error may name any of its
 * fields. Only tenant admins see events from before the id of `target` was stored, and events of an entity that is gone.
 */
function seesTarget({ rights }: TenantCaller, { byId }: Catalog, { payload }: CommittedEvent): boolean {
  if (rights.isUnlimited) return true;
  const target = byId.get(String(payload?.target))?.name;
  return target !== undefined && allows(rights, 'read', target) && restrictionOn(rights, target) === undefined;
}

function neutral(payload: Record<string, unknown>): Record<string, unknown> {
  const { result, error, ...data } = payload.data as { result?: { action?: unknown }; error?: string };
  const outcome = error === undefined ? { result: { action: result?.action } } : { error: NEUTRAL_FAILURE };
  return { ...payload, data: { ...data, ...outcome } };
}

/** Without members when the values have been erased. */
export function fieldsOf(
  row: RecordRow | null,
  { fields }: Pick<Projection, 'fields'>,
  erased?: Erased,
): Record<string, unknown> {
  if (erased !== undefined) return {};
  return Object.fromEntries(fields.map(({ key, slot }) => [key, row?.data[slot] ?? null]));
}

export function flat(
  row: RecordRow,
  { entity, fields }: Pick<Projection, 'entity' | 'fields'>,
): Record<string, unknown> {
  return { ...shape(row, entity, fields), created_at: row.created_at, updated_at: row.updated_at };
}
