// What one caller sees of events: the judge's verdict, under the caller's current rights, on the images in the event. `$now` is
// the event's time, but relations are followed as they are when the event is read. Conditions are parsed once for each entity,
// and again for each event only when they name `$now`.
// Contract: feed#what-a-follower-sees.
import type { TenantCaller } from '../access/caller.ts';
import { allows, isFieldVisible, restrictionOn } from '../access/rights.ts';
import type { App } from '../app.ts';
import { type AccessScope, accessScopeOf, hasRowFilter, readsEveryRow } from '../entities/access-scope.ts';
import { type Catalog, catalogOf, forgetCatalog, isOlderThan } from '../entities/catalog.ts';
import type { Entity, Field } from '../entities/field.ts';
import { retypedIn } from '../entities/past-images.ts';
import { ServiceError } from '../errors.ts';
import { type CommittedEvent, DEFINITION_CHANGED, RECORD_EVENTS, type RecordEventType } from '../events/event.ts';
import type { FeedEvent } from '../events/feed.ts';
import { and, type Expression } from '../expression/ast.ts';
import { parseExpression } from '../expression/parse.ts';
import { Evaluator } from '../records/read/evaluator.ts';
import { shape } from '../records/row.ts';
import { conditionFor } from '../views/dsl.ts';
import { findView, forgetViews } from '../views/views.ts';
import { type Images, judge } from './judge.ts';
import { RIGHTS_CHANGED, type Selection } from './selection.ts';

/** What the caller sees of an event: the record, or what is left of it. */
export interface Seen {
  type: string;
  /** Null when the event is not about an entity. */
  entity: string | null;
  data: Record<string, unknown>;
  /** The record's entity and the fields that the caller sees; undefined when the event is not a change of a record. */
  record?: { entity: Entity; fields: readonly Field[] };
}

/**
 * The caller's access to an entity. `condition` is null when the caller follows every record that it may see; `isWhole` tells
 * whether it may see all records.
 */
interface Access {
  entity: Entity;
  fields: readonly Field[];
  condition: Expression | null;
  isWhole: boolean;
}

/** Definitions changed less than this time ago, in milliseconds, may not have reached this process. */
const FRESH_MS = 10_000;

export class EventReader {
  readonly #accesses = new Map<string, Access | null>();
  #evaluator: Evaluator;

  private constructor(
    private readonly app: App,
    private readonly caller: TenantCaller,
    private selection: Selection,
    private catalog: Catalog,
  ) {
    this.#evaluator = new Evaluator(app.db, catalog);
  }

  /** `known`: how many changes of definitions the follower knows already. */
  static async open(app: App, caller: TenantCaller, selection: Selection, known = 0): Promise<EventReader> {
    const reader = new EventReader(app, caller, selection, await catalogOf(app, caller.tenant));
    if (known > reader.definitionChanges) await reader.#reload();
    return reader;
  }

  /** How many of the tenant's announced changes the definitions contain that decide now. */
  get definitionChanges(): number {
    return this.catalog.definitionChanges;
  }

  /** Announces the events that are read next, so that the related rows that their conditions need are read together. */
  expect(events: readonly CommittedEvent[]): void {
    for (const [entityId, own] of Map.groupBy(events, (event) => event.entityId)) {
      const entity = this.catalog.byId.get(entityId ?? '');
      if (entity === undefined) continue;
      this.#evaluator.expect(entity, ({ slot }) => own.map(({ row }) => row?.data[slot]));
    }
  }

  /** What the caller sees of the event; null when it does not concern the caller. */
  async see(event: FeedEvent): Promise<Seen | null> {
    if (event.type === DEFINITION_CHANGED) return this.#seeDefinition(event);
    if (!isOfRecord(event.type) || event.row === null || event.entityId === null) return null;
    const { entities } = this.selection;
    if (entities !== null && !entities.has(event.entity ?? '')) return null;
    // Of an entity that has been dropped, nothing is shown.
    const mayBeThere = this.catalog.byId.has(event.entityId) || isFresh(event);
    if (mayBeThere && isOlderThan(this.catalog, event.entityId, event.row)) await this.#reload();
    const access = this.#accessTo(event.entityId, event.at);
    if (access === null) return null;
    if (event.erased !== undefined) return this.#seeErased(event, event.row.id, access);
    const { entity, fields, condition } = access;
    const type = await judge(
      event.type,
      imagesOf(event),
      (image) => condition === null || this.#evaluator.met(entity, condition, image, event.at),
      this.selection.transitions,
    );
    if (type === null || !this.#isWanted(type)) return null;
    const isGone = type === 'record.deleted' || type === 'record.left';
    const data = isGone ? { id: event.row.id } : shape(event.row, entity, fields);
    return { type, entity: entity.name, data, record: { entity, fields } };
  }

  /**
   * An erased event has no values, so no condition can be judged. A caller that may see all records is shown the deletion and,
   * if it has no condition of its own, the changes too. Other callers are told to read again, without learning which record it
   * was.
   */
  #seeErased({ type }: FeedEvent, id: string, { entity, fields, condition, isWhole }: Access): Seen | null {
    const isDeletion = type === 'record.deleted';
    if (isDeletion && !isWhole) return { type: RIGHTS_CHANGED, entity: null, data: {} };
    if ((!isDeletion && condition !== null) || !this.#isWanted(type)) return null;
    return { type, entity: entity.name, data: { id }, record: { entity, fields } };
  }

  #isWanted(type: string): boolean {
    return this.selection.events === null || this.selection.events.has(type);
  }

  /** Shows a change of a definition to callers that may read the entity, or might until it was dropped. */
  async #seeDefinition(event: CommittedEvent): Promise<Seen | null> {
    const { entity, payload } = event;
    if (typeof payload?.view === 'string') return this.#seeView(event, payload.view);
    const { entities, view } = this.selection;
    if (isFresh(event)) await this.#reload();
    if (entity === null || (entities !== null && !entities.has(entity))) return null;
    const readers = payload?.readers;
    const wasReader = Array.isArray(readers) && readers.includes(readerOf(this.caller));
    // Another entity may now have the name of a dropped one.
    const isThere = this.catalog.byId.has(event.entityId ?? '');
    if (view === null && !wasReader && !allows(this.caller.rights, 'read', isThere ? entity : '*')) return null;
    if (this.#seesChangedField(event, entity)) return { type: DEFINITION_CHANGED, entity, data: { entity } };
    return this.#decidesOnRows(event) ? { type: RIGHTS_CHANGED, entity: null, data: {} } : null;
  }

  /**
   * Shows a change of a view to its followers, since other records may belong to it now. The entity is the view's current one.
   */
  async #seeView(event: CommittedEvent, slug: string): Promise<Seen | null> {
    if (this.selection.view?.slug !== slug) return null;
    if (isFresh(event)) await this.#reload();
    const entity = this.catalog.byId.get(this.selection.view.entityId)?.name ?? null;
    return entity === null ? null : { type: DEFINITION_CHANGED, entity, data: { entity } };
  }

  /**
   * Whether the caller may see the field that the change of definition is about: under its current key, if the field still
   * exists.
   */
  #seesChangedField({ entityId, payload }: CommittedEvent, entity: string): boolean {
    const changed = payload?.field as { id: string; key: string } | undefined;
    if (changed === undefined) return true;
    const field = this.catalog.byId.get(entityId ?? '')?.fields.find(({ id }) => id === changed.id);
    return isFieldVisible(restrictionOn(this.caller.rights, entity), field?.key ?? changed.key);
  }

  /**
   * Whether a hidden field decides on the caller's rows and had another type before, so that the caller's former rows can no
   * longer be judged. No condition may name a field while its type changes, so the rights have changed since, and perhaps back.
   */
  #decidesOnRows({ entityId, payload, at }: CommittedEvent): boolean {
    const changed = payload?.field as { id: string } | undefined;
    const { entity, condition } = this.#accessTo(entityId ?? '', at) ?? {};
    if (entity === undefined || condition == null) return false;
    return retypedIn(entity, condition).some(
      ({ id, slotAt }) => id === changed?.id && Date.parse(slotAt) >= Date.parse(at),
    );
  }

  async #reload(): Promise<void> {
    const { app, caller } = this;
    forgetCatalog(app, caller.tenant);
    forgetViews(app, caller.tenant);
    this.catalog = await catalogOf(app, caller.tenant);
    const { view } = this.selection;
    const found = view === null ? undefined : await findView(app, caller, view.slug);
    if (view !== null && found !== undefined) {
      const followed = { slug: view.slug, entityId: found.entity.id, dsl: found.view.filterDsl };
      this.selection = { ...this.selection, view: followed, entities: new Set([found.entity.name]) };
    }
    this.#accesses.clear();
    this.#evaluator = new Evaluator(this.app.db, this.catalog);
  }

  /** Null when the caller sees no record of the entity. */
  #accessTo(entityId: string, at: string): Access | null {
    const known = this.#accesses.get(entityId);
    if (known !== undefined) return known;
    const entity = this.catalog.byId.get(entityId);
    const access = entity === undefined ? null : this.#openAccess(entity, new Date(at));
    if (access === null || !this.#dependsOnTime(access.entity)) this.#accesses.set(entityId, access);
    return access;
  }

  #openAccess(entity: Entity, now: Date): Access | null {
    const { caller, catalog, selection } = this;
    const { view, filters } = selection;
    if (view === null ? !allows(caller.rights, 'read', entity.name) : view.entityId !== entity.id) return null;
    if (selection.stream !== undefined && !selection.transitions && hasRowFilter(caller, entity)) return null;
    const scope = scopeAt(catalog, caller, entity, now);
    if (scope === null) return null;
    const condition = and(
      scope.rowFilter,
      view && conditionFor(view.dsl, catalog, caller, entity, now),
      ...filters.map((text) => parseExpression(text, scope.names)),
    );
    const isWhole = readsEveryRow(caller, entity);
    return { entity, fields: scope.fields, condition, isWhole };
  }

  #dependsOnTime({ name }: Entity): boolean {
    const { view, filters } = this.selection;
    const texts = [restrictionOn(this.caller.rights, name)?.rowFilter, ...filters];
    const conditions = view?.dsl.validate.map(({ condition }) => condition) ?? [];
    return [...texts, ...conditions].some((text) => text?.includes('$now') === true);
  }
}

/** Null when the role's row filter no longer fits the entity: then no other route shows its records either. */
function scopeAt(catalog: Catalog, caller: TenantCaller, entity: Entity, now: Date): AccessScope | null {
  try {
    return accessScopeOf(catalog, caller, entity, now);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return null;
    throw error;
  }
}

function isOfRecord(type: string): type is RecordEventType {
  return (RECORD_EVENTS as readonly string[]).includes(type);
}

function imagesOf({ type, row, before }: FeedEvent): Images {
  return { before, after: type === 'record.deleted' ? null : row };
}

function isFresh({ at }: CommittedEvent): boolean {
  return Date.now() - Date.parse(at) < FRESH_MS;
}

/** The caller's name in the list of readers of a dropped entity (entities/announcement.ts). */
function readerOf({ kind, id, role, apiId }: TenantCaller): string {
  if (kind === 'bot') return `bot ${id}`;
  return kind === 'platform_key' ? `api ${apiId} ${role}` : `role ${role}`;
}
