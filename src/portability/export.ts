// Writes a tenant as a document in constant memory: lines are produced as the reader consumes them. The document contains what
// the API shows of a tenant and no credentials: no keys, no secrets, and password hashes only if the super-admin asks for them.
// Failures: 404, 409, 429; later ones abort the connection, so the document has no last line.
// Contract: portability#export.
import { type CallerNow, requireOperatorNow } from '../access/authenticate.ts';
import type { Caller, TenantCaller } from '../access/caller.ts';
import { FULL_RIGHTS } from '../access/rights.ts';
import type { App } from '../app.ts';
import type { Catalog } from '../entities/catalog.ts';
import { entityView } from '../entities/entities.ts';
import type { Entity } from '../entities/field.ts';
import { notFound } from '../errors.ts';
import { positionAt } from '../events/feed.ts';
import { feedHeadsOf } from '../events/feed-heads.ts';
import { keyOfRights, sealCursor } from '../http/changes-cursor.ts';
import { LIMITS } from '../limits.ts';
import { openExport, permitted, tooManyExports } from '../records/transfer/export.ts';
import type { LineWriter } from '../records/transfer/export-stream.ts';
import { recordJson, rowOf } from '../records/transfer/stored-row.ts';
import type { RawRow } from '../runtime/postgres.ts';
import { SharedBudget } from '../runtime/shared-budget.ts';
import { shownSettings, type Tenant, tenantById } from '../tenants/tenants.ts';
import { countRead } from '../usage/tally.ts';
import { FORMAT, FORMAT_VERSION, type Header, type Kind, lineOf, noCounts } from './document.ts';
import { KIND, type SnapshotHead, takeTenantSnapshot } from './snapshot.ts';

/** Operators' exports have their own slots, so that tenants cannot exhaust them; one operator has at most half. */
const operators = new SharedBudget(2 * LIMITS.transfer.exportsPerTenant);

export interface ExportedTenant {
  /** The cursor of the changes since the snapshot. */
  cursor: string;
  body: ReadableStream<Uint8Array>;
}

/** Exports the caller's tenant. A change of the caller's rights aborts the export. */
export async function exportOwnTenant(
  app: App,
  caller: TenantCaller,
  { onCut, callerNow }: { onCut: () => void; callerNow: CallerNow },
): Promise<ExportedTenant> {
  countRead(app, caller);
  const allowed = <T>(rows: AsyncIterable<T>): AsyncIterable<T> => permitted(rows, caller, callerNow);
  return open(app, caller.tenant, { share: caller.tenant.id, withHashes: false, allowed, onCut });
}

/**
 * Exports any tenant, including a suspended one. The export is aborted when the tenant is deleted, or when the operator's key
 * ends.
 */
export async function exportTenant(
  app: App,
  caller: Caller,
  tenant: Tenant,
  { withHashes, onCut }: { withHashes: boolean; onCut: () => void },
): Promise<ExportedTenant> {
  const share = `operator ${caller.id ?? caller.kind}`;
  const allowed = <T>(rows: AsyncIterable<T>): AsyncIterable<T> =>
    amongOperators(share, whileAllowed(app, caller, tenant, rows));
  return open(app, tenant, { share, withHashes, allowed, onCut });
}

async function* amongOperators<T>(share: string, rows: AsyncIterable<T>): AsyncGenerator<T> {
  if (!operators.take(share, 1)) throw tooManyExports();
  try {
    yield* rows;
  } finally {
    operators.give(share, 1);
  }
}

async function* whileAllowed<T>(app: App, caller: Caller, { id }: Tenant, rows: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const batch of rows) {
    await requireOperatorNow(app, caller);
    if ((await tenantById(app, id)) === null) throw notFound('tenant');
    yield batch;
  }
}

interface Opening {
  /** Exports with the same key share one limit. */
  share: string;
  withHashes: boolean;
  allowed<T>(rows: AsyncIterable<T>): AsyncIterable<T>;
  onCut: () => void;
}

async function open(app: App, tenant: Tenant, { share, withHashes, allowed, onCut }: Opening): Promise<ExportedTenant> {
  // The floor of an earlier head is valid for the snapshot, too.
  const { floor } = await feedHeadsOf(app).take();
  const writer = new DocumentWriter();
  const rows = async function* (): AsyncGenerator<RawRow[]> {
    const snapshot = await takeTenantSnapshot(app, tenant, withHashes);
    writer.begin(snapshot.catalog, headerOf(app, tenant, snapshot.head, floor));
    yield* snapshot.rows;
  };
  const body = await openExport(app, share, writer, allowed(rows()), onCut);
  return { cursor: writer.cursor, body };
}

function headerOf(app: App, { id }: Tenant, { tenant, ...head }: SnapshotHead, floor: number): Header {
  return {
    type: 'header',
    format: FORMAT,
    version: FORMAT_VERSION,
    tenant: { ...tenant, settings: shownSettings(tenant) },
    exportedAt: new Date(head.at).toISOString(),
    cursor: sealCursor(app, id, { rightsKey: keyOfRights(FULL_RIGHTS), position: positionAt({ ...head, floor }) }),
  };
}

/** Produces the lines of a snapshot's rows. `begin` is called before the first row. */
class DocumentWriter implements LineWriter<RawRow> {
  readonly head = '';
  readonly #counts = noCounts();
  #begun: { catalog: Catalog; header: Header } | undefined;

  begin(catalog: Catalog, header: Header): void {
    this.#begun = { catalog, header };
  }

  get cursor(): string {
    return this.#snapshot().header.cursor;
  }

  *line(row: RawRow): Generator<string | Uint8Array> {
    const kind = String(row[KIND]);
    const entity = this.#snapshot().catalog.byId.get(kind);
    if (entity !== undefined) yield* this.#record(row, entity);
    else if (kind === 'header') yield* this.#definitions();
    else if (kind === 'end') yield lineOf({ type: 'end', counts: this.#counts });
    else {
      this.#counts[kind as Kind] += 1;
      const members = JSON.parse(String(row[0])) as Record<string, unknown>;
      yield lineOf({ type: kind, ...(kind === 'subscription' ? withoutUnused(members) : members) });
    }
  }

  #snapshot(): { catalog: Catalog; header: Header } {
    if (this.#begun === undefined) throw new Error('the snapshot has not been taken');
    return this.#begun;
  }

  *#definitions(): Generator<string> {
    const { catalog, header } = this.#snapshot();
    yield lineOf(header);
    for (const entity of catalog.byName.values()) {
      this.#counts.entity += 1;
      yield lineOf({ type: 'entity', ...entityView(catalog, entity, entity.fields) });
    }
  }

  *#record(row: RawRow, entity: Entity): Generator<string | Uint8Array> {
    this.#counts.record += 1;
    const { version } = rowOf(row, {});
    yield `{"type":"record","entity":${JSON.stringify(entity.name)},"version":${version},"data":`;
    yield* recordJson(row, entity, entity.fields);
    yield '}\n';
  }
}

/** A subscription as the API shows it. */
function withoutUnused(members: Record<string, unknown>): Record<string, unknown> {
  const used = Object.entries(members).filter(([name, value]) => value !== null || name === 'description');
  return Object.fromEntries(used);
}
