// An import under way: the source is sent in parts through the API's import, as records that the page has made of its
// lines, and goes on while one looks at other pages. Refused lines are kept as a file, to be corrected and imported
// again. A cancelled import ends between two parts, so that what was imported is known exactly, and can be resumed there.
import { post } from '../../api/call.ts';
import { ApiError } from '../../api/errors.ts';
import { queryClient, keyOf as queryKeyOf } from '../../api/queries.ts';
import { session } from '../../api/session.ts';
import { endJob, showJob } from '../../app/jobs.ts';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { counted } from '../../parts/value.ts';
import { csvLine } from './csv.ts';
import { asText, type Plan } from './import-plan.ts';
import { REFUSED_COLUMNS, recordsOf, type Source, type SourceRecord } from './import-source.ts';
import { importedSince, newestRecord, type Span } from './import-undo.ts';

export interface ImportState {
  state: 'running' | 'ending' | 'done' | 'cancelled' | 'failed';
  created: number;
  refused: number;
  bytes: number;
  totalBytes: number;
  failure: unknown;
  /** The first line that was not sent; null when all were. */
  next: number | null;
  /** Whether the line before is the last of which anything was imported. */
  isNextSure: boolean;
  /** What the import created and nothing else; null while that is not known, or cannot be. */
  span: Span | null;
}

export interface Refusal {
  line: number;
  message: string;
}

interface Report {
  created: number;
  refused: number;
  errors: Refusal[];
}

/** The API names this many refused lines of a part. */
const PER_PART = 1_000;
const PART_BYTES = 1_000_000;
const MOST_SHOWN = 100;
/** Refused lines wait as text until there are this many, then as a piece of a file, which the browser keeps on disk. */
const LINES_PER_PIECE = 1_000;
const MOST_TRIES = 10;

export class ImportRun {
  #state: ImportState;
  #shown: Refusal[] = [];
  #lines: string[] = [];
  #pieces: Blob[] = [];
  #isEnding = false;
  #before: string | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(
    readonly tenant: string,
    readonly entity: string,
    readonly source: Source,
    private readonly plan: Plan,
    /** Who imports, as records name their creator. */
    private readonly actor: string | null,
  ) {
    const totalBytes = source.blob.size;
    this.#state = {
      state: 'running',
      created: 0,
      refused: 0,
      bytes: 0,
      totalBytes,
      failure: null,
      next: null,
      isNextSure: true,
      span: null,
    };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly get = (): ImportState => this.#state;

  /** Ends after the part that is under way. */
  cancel(): void {
    this.#isEnding = true;
    if (this.#state.state === 'running') this.#set({ state: 'ending' });
  }

  /** Ends when the import has; never throws. After a cancelled or failed one it goes on from the first line not sent. */
  async run(): Promise<void> {
    this.#isEnding = false;
    const from = this.#state.next ?? 0;
    this.#set({ state: 'running', failure: null, span: null });
    try {
      if (from === 0) this.#before = await newestRecord(this.tenant, this.entity);
      const isWhole = await this.#sendAll(from);
      this.#set(isWhole ? { state: 'done', bytes: this.source.blob.size, next: null } : { state: 'cancelled' });
    } catch (cause) {
      this.#set({ state: 'failed', failure: cause, isNextSure: isUnsent(cause) });
    }
    if (this.#state.created > 0) this.#set({ span: await this.#exactSpan() });
    this.#announce();
    for (const name of ['count', 'usage', 'latest']) {
      void queryClient.invalidateQueries({ queryKey: queryKeyOf(this.tenant, name) });
    }
  }

  /** The refused lines as CSV: line, reason, and the values as they stood. */
  refusedLines(): Blob {
    const header = csvLine([...REFUSED_COLUMNS, ...this.source.columns]);
    return new Blob(['\uFEFF', header, ...this.#pieces, ...this.#lines], { type: 'text/csv' });
  }

  /** The first refusals, to be shown. */
  firstRefused(): readonly Refusal[] {
    return this.#shown;
  }

  /** Whether the end of the file was reached. */
  async #sendAll(from: number): Promise<boolean> {
    let part: SourceRecord[] = [];
    let sentBytes = 0;
    let before = 0;
    for await (const { records, bytes } of recordsOf(this.source)) {
      for (const [at, record] of records.entries()) {
        if (record.line < from) continue;
        part.push(record);
        const isLast = at === records.length - 1;
        const here = before + ((bytes - before) * (at + 1)) / records.length;
        if (part.length < PER_PART && !(isLast && here - sentBytes >= PART_BYTES)) continue;
        if (!(await this.#send(part))) return false;
        part = [];
        sentBytes = here;
        this.#set({ bytes: here });
      }
      before = bytes;
    }
    return part.length === 0 || (await this.#send(part));
  }

  /** False when the import was cancelled before. */
  async #send(part: readonly SourceRecord[]): Promise<boolean> {
    this.#set({ next: part[0]?.line ?? null });
    if (this.#isEnding) return false;
    await this.plan.learn(part);
    const sent: SourceRecord[] = [];
    const bodies: string[] = [];
    const refused: [SourceRecord, string][] = [];
    for (const record of part) {
      const prepared = this.plan.prepare(record);
      if ('problem' in prepared) refused.push([record, prepared.problem]);
      else {
        sent.push(record);
        bodies.push(JSON.stringify(prepared.values));
      }
    }
    let created = 0;
    if (bodies.length > 0) {
      const report = await this.#post(new Blob([bodies.join('\n')]));
      created = report.created;
      for (const { line, message } of report.errors) {
        const record = sent[line - 1];
        if (record !== undefined) refused.push([record, this.plan.explained(message, record)]);
      }
    }
    this.#refuse(refused.sort(([a], [b]) => a.line - b.line));
    this.#set({ created: this.#state.created + created, next: (part.at(-1)?.line ?? 0) + 1 });
    return true;
  }

  /** Sends a part again that the service was too busy to take. */
  async #post(body: Blob): Promise<Report> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await post<Report>(`/api/entities/${this.entity}/records/import`, body, {
          tenant: this.tenant,
          headers: { 'Content-Type': 'application/x-ndjson' },
        });
      } catch (cause) {
        if (!isBusy(cause) || tries >= MOST_TRIES || this.#isEnding) throw cause;
        await new Promise((resolve) => setTimeout(resolve, cause.retryAfterMs ?? tries * 1_000));
      }
    }
  }

  async #exactSpan(): Promise<Span | null> {
    const { tenant, entity, actor } = this;
    const created = this.#state.created;
    return importedSince({ tenant, entity, actor, after: this.#before, created }).catch(() => null);
  }

  #refuse(more: readonly [SourceRecord, string][]): void {
    for (const [{ line, values }, message] of more) {
      if (this.#shown.length < MOST_SHOWN) this.#shown.push({ line, message });
      this.#lines.push(
        csvLine([String(line), message, ...this.source.columns.map((column) => asText(values[column]))]),
      );
    }
    if (this.#lines.length >= LINES_PER_PIECE) {
      this.#pieces.push(new Blob(this.#lines));
      this.#lines = [];
    }
    this.#set({ refused: this.#state.refused + more.length });
  }

  #set(patch: Partial<ImportState>): void {
    this.#state = { ...this.#state, ...patch };
    for (const listener of this.#listeners) listener();
    if (runOf(this.tenant, this.entity) === this) this.#show();
  }

  /** In the top bar of every page. */
  #show(): void {
    const { state, bytes, totalBytes } = this.#state;
    const isRunning = state === 'running' || state === 'ending';
    showJob({
      key: keyOf(this),
      label: isRunning ? `Import into ${this.entity}` : `Import into ${this.entity} ended`,
      share: isRunning ? bytes / Math.max(1, totalBytes) : null,
      href: `/app/t/${this.tenant}/records/${this.entity}?transfer=import`,
    });
  }

  /** To a person who looks at another page. */
  #announce(): void {
    if (this.#listeners.size > 0 || runOf(this.tenant, this.entity) !== this) return;
    const { state, created, refused } = this.#state;
    const lines = refused === 0 ? '' : ` ${counted(refused, 'line')} refused.`;
    const description = `${counted(created, 'record')} imported.${lines}`;
    if (state === 'done') saySuccess({ title: `Import into ${this.entity} is done.`, description });
    else sayError({ title: `Import into ${this.entity} has ended early.`, description });
  }
}

/** Whether a part left nothing behind: refused as a whole, and no record of it kept. */
function isUnsent(cause: unknown): boolean {
  return cause instanceof ApiError && cause.status < 500 ? !/\bimportId\b/.test(cause.message) : isBusy(cause);
}

function isBusy(cause: unknown): cause is ApiError {
  if (!(cause instanceof ApiError) || /\bimportId\b/.test(cause.message)) return false;
  return cause.status === 503 || (cause.status === 429 && cause.retryAfterMs !== null && cause.retryAfterMs <= 60_000);
}

/** The imports of this tab, by tenant and entity; one at a time each. They end with the session. */
const runs = new Map<string, ImportRun>();
const keyOf = ({ tenant, entity }: Pick<ImportRun, 'tenant' | 'entity'>): string => `import ${tenant} ${entity}`;

session.subscribe(() => {
  if (session.get() !== null) return;
  for (const run of runs.values()) {
    run.cancel();
    forget(run);
  }
});

window.addEventListener('beforeunload', (event) => {
  const isBusyWith = [...runs.values()].some((run) => ['running', 'ending'].includes(run.get().state));
  if (isBusyWith) event.preventDefault();
});

export function runOf(tenant: string, entity: string): ImportRun | undefined {
  return runs.get(keyOf({ tenant, entity }));
}

export function begin(run: ImportRun): void {
  runs.set(keyOf(run), run);
  void run.run();
}

export function forget(run: ImportRun): void {
  runs.delete(keyOf(run));
  endJob(keyOf(run));
}
