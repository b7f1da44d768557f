// The dry run of an import: each batch is tried in a transaction of its own. However large the file is, others never wait for
// more than one batch, and memory stays small. Since each batch is rolled back, later batches do not see its records. The dry
// run therefore remembers 64 bits of the digest of each unique value, so that a repetition within the file is refused, or
// changed by an upsert, as the import would. Beyond `VALUES_MAX` values, it no longer notices repetitions across batches.
// Contract: trying#imports.
import { createHash } from 'node:crypto';
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import type { AccessScope } from '../../entities/access-scope.ts';
import { ServiceError } from '../../errors.ts';
import { tryOut } from '../../http/dry-run.ts';
import type { DryRun } from '../../runtime/dry-run.ts';
import { applyIndependently } from '../batch/independent.ts';
import type { Batch, BatchItem, BatchKind, Outcome } from '../batch/items.ts';
import { textOf } from '../batch/keys.ts';
import type { RecordRow } from '../row.ts';
import { duplicateOf } from '../write/constraints.ts';

const VALUES_MAX = 2_000_000;

/** The outcome of a line, and the digests of its unique values. */
interface TriedLine {
  outcome: Outcome;
  values: readonly bigint[];
}

export class DryImport {
  readonly #seen = new Digests(VALUES_MAX);

  constructor(private readonly dryRun: DryRun) {}

  /** Tries a batch. Resolves to the outcome of each line, by index. */
  async apply(
    app: App,
    caller: TenantCaller,
    entityName: string,
    batch: Batch,
  ): Promise<Map<number, Outcome | ServiceError>> {
    const toResult = (scope: AccessScope, item: BatchItem, row: RecordRow, outcome: Outcome): TriedLine =>
      this.#tryLine(caller, scope, batch, { item, row, outcome });
    const tryBatch = (dry: App) => applyIndependently(dry, caller, entityName, batch, toResult);
    const { result } = await tryOut(app, { dryRun: this.dryRun }, tryBatch);
    const outcomes = new Map<number, Outcome | ServiceError>();
    for (const [index, tried] of result) {
      outcomes.set(index, tried instanceof ServiceError ? tried : tried.outcome);
      if (!(tried instanceof ServiceError)) for (const value of tried.values) this.#seen.add(value);
    }
    return outcomes;
  }

  /** Throws a 409 when an earlier line has the same unique value. */
  #tryLine(
    caller: TenantCaller,
    { entity }: AccessScope,
    kind: BatchKind,
    { item, row, outcome }: { item: BatchItem; row: RecordRow; outcome: Outcome },
  ): TriedLine {
    const unique = entity.fields.filter((field) => field.unique && row.data[field.slot] != null);
    const digests = unique.map((field) => digestOf(field.id, textOf(field, row.data[field.slot])));
    const keptId = item.id === '' ? [] : [digestOf('id', item.id)];
    const values = [...digests, ...keptId];
    if (outcome !== 'created') return { outcome, values };
    const repeated = unique.filter((_, i) => this.#seen.has(digests[i] as bigint));
    const isIdRepeated = keptId.some((digest) => this.#seen.has(digest));
    const by = kind.op === 'upsert' ? kind.by : undefined;
    if (repeated.some(({ key }) => key === by) || (by === 'id' && isIdRepeated)) return { outcome: 'updated', values };
    const [field] = repeated;
    if (field !== undefined || isIdRepeated) throw duplicateOf(field, entity, caller);
    return { outcome, values };
  }
}

function digestOf(name: string, text: string): bigint {
  return createHash('sha256').update(`${name} ${text}`).digest().readBigUInt64LE() || 1n;
}

const SHARDS = 256;

/**
 * A set of at most `max` 64-bit numbers other than 0, which takes 16 to 32 bytes for each. It has shards, since growing a large
 * table takes time.
 */
class Digests {
  readonly #shards = Array.from({ length: SHARDS }, () => new Shard());
  #size = 0;

  constructor(private readonly max: number) {}

  has(digest: bigint): boolean {
    return this.#shardOf(digest).has(digest);
  }

  add(digest: bigint): void {
    if (this.#size >= this.max || this.has(digest)) return;
    this.#shardOf(digest).add(digest);
    this.#size++;
  }

  #shardOf(digest: bigint): Shard {
    return this.#shards[Number(digest >> 56n)] as Shard;
  }
}

/** Open addressing; at most half of the slots are used. */
class Shard {
  #slots = new BigUint64Array(16);
  #size = 0;

  has(digest: bigint): boolean {
    return this.#slots[slotOf(this.#slots, digest)] === digest;
  }

  add(digest: bigint): void {
    if (this.#size * 2 >= this.#slots.length) this.#grow();
    this.#slots[slotOf(this.#slots, digest)] = digest;
    this.#size++;
  }

  #grow(): void {
    const slots = new BigUint64Array(this.#slots.length * 2);
    for (const digest of this.#slots) if (digest !== 0n) slots[slotOf(slots, digest)] = digest;
    this.#slots = slots;
  }
}

/** The slot where the number is, or would be stored. */
function slotOf(slots: BigUint64Array, digest: bigint): number {
  const mask = slots.length - 1;
  let slot = Number(digest & 0xffff_ffffn) & mask;
  while (slots[slot] !== 0n && slots[slot] !== digest) slot = (slot + 1) & mask;
  return slot;
}
