// The entities of a document. A relation may refer to an entity of a later line, so entities are kept in memory, where they
// take little, and stored together after the last one.
// Failures: 400 with every problem of a line.
// Contract: portability#import.
import { Type } from '@sinclair/typebox';
import type { App } from '../app.ts';
import type { Catalog } from '../entities/catalog.ts';
import { readIndexes } from '../entities/declared-indexes.ts';
import { type IndexInput, NewEntityNames } from '../entities/definition.ts';
import { storeFields } from '../entities/entities.ts';
import { definitionValues, type FieldDraft, fieldOf, readFields } from '../entities/field-input.ts';
import { matchAhead, withKnownMatches } from '../entities/patterns.ts';
import { invalid, invalidField, type Problem } from '../errors.ts';
import { EVERY_ENTITY } from '../events/entity-change.ts';
import { check } from '../http/check.ts';
import { closed, Ignored, Timestamp, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { sql } from '../runtime/sql.ts';
import { type JsonObject, jsonBytes } from '../runtime/text.ts';
import { Allowance } from './allowance.ts';
import type { ArrivingTenant } from './arriving.ts';
import { atLine } from './faults.ts';
import type { IdMap } from './new-ids.ts';
import { timeProblems } from './times.ts';

const { definitionBytesMax } = LIMITS.entity;
/**
 * The limit for all lines together. Lines name every attribute of a field, which the limit of stored definitions does not count.
 */
const HELD_BYTES_MAX = 3 * definitionBytesMax;
/** Entities whose tables one transaction creates. */
const TABLES_AT_ONCE = 20;

const FieldLine = Type.Object({ id: Uuid });
const EntityLine = closed({
  ...NewEntityNames.properties,
  type: Ignored,
  id: Uuid,
  isSystem: Type.Boolean(),
  fields: Type.Array(FieldLine),
  createdAt: Timestamp,
  updatedAt: Timestamp,
});

interface HeldEntity {
  line: number;
  id: string;
  name: string;
  label: string | null;
  description: string | null;
  searchFolding: boolean;
  fields: (JsonObject & { id: string })[];
  indexes: readonly IndexInput[];
  createdAt: string;
  updatedAt: string;
}

export class Entities {
  readonly #held: HeldEntity[] = [];
  readonly #allowed = new Allowance();
  #bytes = 0;

  constructor(
    private readonly app: App,
    private readonly ids: IdMap,
  ) {}

  add(line: number, members: JsonObject): void {
    const entity = check(EntityLine, members, timeProblems);
    const { name, label = null, description = null, searchFolding = true, createdAt, updatedAt, indexes = [] } = entity;
    const fields = entity.fields as HeldEntity['fields'];
    const id = this.ids(entity.id);
    // A subscription to an entity with this id would be one to all entities.
    if (id === EVERY_ENTITY) throw invalidField('id', 'cannot be the id of an entity');
    this.#allowed.once('entity', 'name', name);
    this.#allowed.once('entity', 'id', id);
    this.#allowed.one('entities');
    const repeated = repeatedIds(fields);
    if (repeated.length > 0) throw invalid(repeated);
    this.#bytes += jsonBytes(members);
    if (this.#bytes > HELD_BYTES_MAX) {
      throw invalidField('fields', `the fields and rules of a tenant take at most ${definitionBytesMax} bytes`);
    }
    this.#held.push({ line, id, name, label, description, searchFolding, fields, indexes, createdAt, updatedAt });
  }

  /** Validates all entities and stores them in a new tenant. */
  async end(begin: () => Promise<ArrivingTenant>): Promise<ArrivingTenant> {
    const targets = { byName: new Map(this.#held.map((held) => [held.name, held])) } as unknown as Catalog;
    const drafts: FieldDraft[][] = [];
    for (const held of this.#held) {
      await giveWay();
      drafts.push(await atLine(held.line, () => draftsOf(held, targets)));
    }
    const arriving = await begin();
    await this.#storeNames(arriving);
    for (let from = 0; from < this.#held.length; from += TABLES_AT_ONCE)
      await this.#storeFields(arriving, from, drafts);
    return arriving;
  }

  /** Stores the definitions first, because fields refer to them. */
  async #storeNames(arriving: ArrivingTenant): Promise<void> {
    await this.app.db.slow.begin(async (tx) => {
      for (const { id, name, label, description, searchFolding, fields, createdAt, updatedAt } of this.#held) {
        await tx.rows(sql`
          insert into ${arriving.own('entity_definitions')}
            (id, name, label, description, search_folding, is_in_id_order, next_slot, created_at, updated_at)
          values (${id}::uuid, ${name}, ${label}, ${description}, ${searchFolding}::boolean, true, ${fields.length + 1}::int, ${createdAt}::timestamptz,
            ${updatedAt}::timestamptz)`);
      }
    });
  }

  async #storeFields(arriving: ArrivingTenant, from: number, drafts: readonly FieldDraft[][]): Promise<void> {
    const part = this.#held.slice(from, from + TABLES_AT_ONCE);
    await this.app.db.slow.begin(async (tx) => {
      for (const [i, { line, id, fields: given, indexes: declared }] of part.entries()) {
        const own = drafts[from + i] ?? [];
        const fields = own.map((draft, n) => fieldOf(draft, this.ids(given[n]?.id ?? ''), `f${n + 1}`, n + 1));
        const indexes = await atLine(line, () => readIndexes(fields, declared));
        await atLine(line, () => storeFields(tx, arriving.tenant.schema, { id, fields, indexes }));
        await tx.rows(sql`
          update ${arriving.own('entity_definitions')} set indexes = ${JSON.stringify(indexes)}::text::jsonb
          where id = ${id}::uuid`);
      }
    });
  }
}

function repeatedIds(fields: readonly { id: string }[]): Problem[] {
  const ids = fields.map(({ id }) => id.toLowerCase());
  return ids.flatMap((id, i) =>
    ids.indexOf(id) === i ? [] : [{ path: `fields.${i}.id`, message: 'another field has the same' }],
  );
}

async function draftsOf({ id, name, fields }: HeldEntity, catalog: Catalog): Promise<FieldDraft[]> {
  const inputs = fields.map(({ id: _, ...input }) => input);
  const matches = await matchAhead(definitionValues(inputs));
  return withKnownMatches(matches, () => readFields({ fields: inputs as never }, { catalog, self: { id, name } }));
}
