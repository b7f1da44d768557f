// Imports the document of a tenant, of any size and in constant memory, into a new tenant that becomes visible once it is
// complete. The import counts as work of the new tenant, so a large one delays others no more than an import of records does.
// Failures: 400 that names the line and the member; 409 for a taken slug; 429. None leaves anything behind.
// Contract: portability#import.
import { type Static, Type } from '@sinclair/typebox';
import { requireOperatorNow } from '../access/authenticate.ts';
import type { Caller } from '../access/caller.ts';
import { Settings, settingProblems } from '../admin/tenant-settings.ts';
import { OwnTenantSchema, ownView, TenantName, TenantSlug } from '../admin/tenants.ts';
import { type App, perApp } from '../app.ts';
import { clientGone, conflict, invalid, invalidField, rateLimited } from '../errors.ts';
import { check } from '../http/check.ts';
import { parseObject } from '../http/json-object.ts';
import { closed, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { type Line, LineReader } from '../records/transfer/lines.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { keepGarbageSmall } from '../runtime/garbage.ts';
import { newId } from '../runtime/ids.ts';
import { SharedBudget } from '../runtime/shared-budget.ts';
import { sql } from '../runtime/sql.ts';
import type { JsonObject } from '../runtime/text.ts';
import { currentWork, forTenant, isGone } from '../runtime/work.ts';
import { ArrivingTenant, type NewTenant } from './arriving.ts';
import { Definitions } from './definitions.ts';
import { type Counts, FORMAT, FORMAT_VERSION, KINDS, type Kind, noCounts } from './document.ts';
import { Entities } from './entities.ts';
import { atLine, faultAt } from './faults.ts';
import { type MaskInput, type MaskOf, masksOf, noMask } from './mask.ts';
import { type IdMap, newIds, sameIds } from './new-ids.ts';
import { Records } from './records.ts';

const CountsSchema = Type.Object(
  Object.fromEntries(KINDS.map((kind) => [kind, Type.Integer({ minimum: 0, examples: [1] })])) as Record<
    Kind,
    ReturnType<typeof Type.Integer>
  >,
);
export const ImportedTenant = Type.Object({
  tenant: OwnTenantSchema,
  created: CountsSchema,
  apiKey: Type.String({ description: 'the first owner key, shown once', examples: ['svc_ak_9fQ2...'] }),
});
export type ImportedTenant = Static<typeof ImportedTenant>;

const HeaderLine = closed({
  type: Type.Literal('header'),
  format: Type.Literal(FORMAT),
  version: Type.Literal(FORMAT_VERSION),
  tenant: closed({ slug: TenantSlug, name: TenantName, settings: Settings }),
  exportedAt: Timestamp,
  cursor: Type.String(),
});
const EndLine = closed({ type: Type.Literal('end'), counts: CountsSchema });

export interface ImportOptions {
  /** Both default to the values in the document. */
  slug?: string | undefined;
  name?: string | undefined;
  ids: 'keep' | 'new';
  mask?: MaskInput;
}

/** Lines between two checks whether the client is still connected, and its credential still valid. */
const LINES_BETWEEN = 500;
/** What a line adds around the members of a record. */
const AROUND = { levels: 1, names: 16 };

const places = perApp(() => new SharedBudget(LIMITS.portability.importsMax));

/**
 * `body` arrives in chunks of a few kilobytes. A caller has at most half of the slots, so that one caller's slow uploads do not
 * block all.
 */
export async function importTenant(
  app: App,
  caller: Caller,
  body: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<ImportedTenant> {
  const [own, share] = [places(app), caller.id ?? caller.kind];
  if (!own.take(share, 1)) throw rateLimited('too many tenants are being imported at once', 5);
  const collected = keepGarbageSmall();
  try {
    return await read(app, caller, body, options);
  } finally {
    collected();
    own.give(share, 1);
  }
}

async function read(
  app: App,
  caller: Caller,
  body: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<ImportedTenant> {
  const work = currentWork();
  const requireStill = async (): Promise<void> => {
    if (isGone(work)) throw clientGone();
    await requireOperatorNow(app, caller);
  };
  const lines = linesOf(body, requireStill);
  try {
    const first = await lines.next();
    const { line, members } = first.done === true ? { line: 1, members: {} } : first.value;
    const { tenant } = await atLine(line, () => check(HeaderLine, members, (valid) => headerProblems(app, valid)));
    const { slug = tenant.slug, name = tenant.name, ids } = options;
    await requireFreeSlug(app, slug);
    const own = { id: newId(), slug, name, settings: tenant.settings };
    const reader = new DocumentReader(app, own, ids === 'new' ? newIds() : sameIds, options.mask ?? {});
    return await forTenant(own.id, () => reader.read(lines));
  } finally {
    await lines.return(undefined);
  }
}

/** Problems with settings that are invalid for every tenant. Settings that only this installation refuses are omitted later. */
function headerProblems(app: App, { tenant }: { tenant?: { settings?: { allowedOrigins?: (string | undefined)[] } } }) {
  const { allowedOrigins = [] } = tenant?.settings ?? {};
  return settingProblems(app)({ settings: { allowedOrigins } }).map((problem) => ({
    ...problem,
    path: `tenant.${problem.path}`,
  }));
}

async function requireFreeSlug(app: App, slug: string): Promise<void> {
  const taken = await app.db.first(sql`select id from platform.tenants where slug = ${slug}`);
  if (taken !== undefined) throw conflict(`a tenant ${slug} already exists`);
}

interface ReadLine {
  line: number;
  members: JsonObject;
}

/** The lines of the document. `requireStill` is called from time to time, and at the end, before anything becomes visible. */
async function* linesOf(
  body: AsyncIterable<Uint8Array>,
  requireStill: () => Promise<void>,
): AsyncGenerator<ReadLine, undefined> {
  const reader = new LineReader(false, LIMITS.portability.lineBytesMax);
  let next = 1;
  const parsed = async (line: Line): Promise<ReadLine> => {
    await giveWay();
    if (line.line !== next) throw faultAt(next, invalidField('', 'is empty'));
    next += 1;
    if (next % LINES_BETWEEN === 0) await requireStill();
    return { line: line.line, members: await atLine(line.line, () => membersOf(line)) };
  };
  for await (const chunk of body) for (const line of reader.push(chunk)) yield await parsed(line);
  for (const line of reader.end()) yield await parsed(line);
  await requireStill();
  return undefined;
}

async function membersOf(line: Line): Promise<JsonObject> {
  if ('problem' in line) throw invalidField('', line.problem);
  const parsed = await parseObject(line.text, AROUND);
  if ('problems' in parsed) throw invalid(parsed.problems);
  return parsed.value;
}

/** Reads the lines after the header, kind by kind. */
class DocumentReader {
  readonly #counts: Counts = noCounts();
  readonly #entities: Entities;
  #arriving: ArrivingTenant | null = null;
  #definitions: Definitions | null = null;
  #records: Records | null = null;
  /** The index in KINDS of the last line's kind. */
  #at = 0;
  #line = 1;

  constructor(
    private readonly app: App,
    private readonly tenant: NewTenant,
    private readonly ids: IdMap,
    private readonly mask: MaskInput,
  ) {
    this.#entities = new Entities(app, ids);
  }

  async read(lines: AsyncIterable<ReadLine>): Promise<ImportedTenant> {
    try {
      let hasEnded = false;
      for await (const { line, members } of lines) {
        this.#line = line;
        if (hasEnded) throw faultAt(line, invalidField('', 'comes after the end'));
        hasEnded = await atLine(line, () => this.#take(line, members));
      }
      if (!hasEnded) {
        throw faultAt(
          this.#line + 1,
          invalidField('', 'is missing: a complete document ends with a line of the type end'),
        );
      }
      return await this.#complete();
    } catch (error) {
      await this.#records?.stop();
      await this.#arriving?.discard();
      throw error;
    }
  }

  async #complete(): Promise<ImportedTenant> {
    const { arriving, records } = await this.#toRecords();
    const { tenant, apiKey } = await arriving.complete(records.stored);
    return { tenant: ownView(tenant), created: this.#counts, apiKey };
  }

  /** Resolves to whether this was the last line. */
  async #take(line: number, members: JsonObject): Promise<boolean> {
    if (members.type === 'end') {
      await this.#end(members);
      return true;
    }
    const at = KINDS.indexOf(members.type as Kind);
    const kind = KINDS[at];
    if (kind === undefined) throw invalidField('type', `must be one of ${KINDS.join(', ')}, end`);
    if (at < this.#at) throw invalidField('type', `${kind} cannot come after ${KINDS[this.#at]}`);
    this.#at = at;
    this.#counts[kind] += 1;
    if (kind === 'entity') this.#entities.add(line, members);
    else if (kind === 'record') await (await this.#toRecords()).records.add(line, members);
    else await (await this.#toDefinitions()).definitions.add(kind, line, members);
    return false;
  }

  /** Called when the entities have ended. */
  async #toDefinitions(): Promise<{ arriving: ArrivingTenant; definitions: Definitions }> {
    const arriving = this.#arriving ?? (await this.#entities.end(() => this.#begin()));
    this.#definitions ??= await Definitions.of(this.app, arriving, this.ids);
    return { arriving, definitions: this.#definitions };
  }

  async #begin(): Promise<ArrivingTenant> {
    this.#arriving = await ArrivingTenant.begin(this.app, this.tenant);
    return this.#arriving;
  }

  /** Called when the definitions have ended, too. */
  async #toRecords(): Promise<{ arriving: ArrivingTenant; records: Records }> {
    const { arriving, definitions } = await this.#toDefinitions();
    if (this.#records === null) {
      await definitions.end();
      const { catalog } = definitions;
      const maskOf: MaskOf = Object.keys(this.mask).length === 0 ? noMask : masksOf(catalog, this.mask);
      this.#records = new Records(this.app, arriving, catalog, this.ids, maskOf);
    }
    return { arriving, records: this.#records };
  }

  async #end(members: JsonObject): Promise<void> {
    const { counts } = check(EndLine, members);
    const wrong = KINDS.filter((kind) => counts[kind] !== this.#counts[kind]);
    if (wrong.length > 0) {
      throw invalid(
        wrong.map((kind) => ({
          path: `counts.${kind}`,
          message: `is ${counts[kind]}, but there were ${this.#counts[kind]}`,
        })),
      );
    }
    await (await this.#toRecords()).records.end();
  }
}
