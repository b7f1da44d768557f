// Changes of cells: shown at once, written one after the other by record, each with the ETag under which the person saw
// it. A lost race on the same cell shows both values and the person chooses; a refused value stays in its cell with the
// message; without a connection it stays, marked, and is sent when the connection is back. Kept for the tab while one
// goes from page to page, until signing out; never stored.
import { online } from '../api/call.ts';
import { session } from '../api/session.ts';
import type { Deleted } from '../history/bring-back.ts';
import { History, type Step, stepOf } from './history.ts';
import type { Rows } from './rows.ts';
import { type Change, type Outcome, type Target, writeCells } from './write-cells.ts';

export interface CellState {
  state: 'saving' | 'unsent' | 'refused' | 'overtaken';
  /** What the person wrote. */
  value: unknown;
  before: unknown;
  etag: string | null;
  /** What stands in the record now, when the person was overtaken. */
  theirs?: unknown;
  by?: string | null;
  message?: string;
}

/** What came of an act of the person. */
export type Notice =
  | { kind: 'written'; outcomes: readonly Outcome[]; wasUnsent: boolean }
  | { kind: 'undone' | 'redone'; label: string; outcomes: readonly Outcome[] }
  /** Deleted records are there again. */
  | { kind: 'back' }
  | { kind: 'undo-empty' | 'redo-empty' };

interface BulkOptions {
  signal: AbortSignal;
  onPart: (outcomes: readonly Outcome[]) => void;
}

/** Between two tries of what could not be sent. */
const AGAIN_MS = 5_000;

export class Edits {
  /** The list that is shown; null while another page is. */
  rows: Rows | null = null;
  /** Says what came of an act. */
  onNotice: (notice: Notice) => void = () => undefined;
  readonly history = new History();
  #cells = new Map<string, CellState>();
  #queues = new Map<string, Promise<unknown>>();
  /** By record and ETag: the ETag after our own next write, under which nobody else's change lies. */
  #successors = new Map<string, string>();
  #turns: Promise<unknown> = Promise.resolve();
  #isSending = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #version = 0;
  readonly #listeners = new Set<() => void>();

  constructor(private readonly target: Target) {
    online.subscribe(() => online.get() && void this.sendAgain());
    addEventListener('online', () => void this.sendAgain());
    addEventListener('beforeunload', (event) => this.unsent().length > 0 && event.preventDefault());
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  of(id: string, key: string): CellState | undefined {
    // Every cell that is drawn asks.
    if (this.#cells.size === 0) return undefined;
    return this.#cells.get(nameOf(id, key));
  }

  /** The cells where someone else was first, oldest first. */
  overtaken(): (CellState & { id: string; key: string })[] {
    return this.#in('overtaken');
  }

  /** The cells that wait for the connection. */
  unsent(): (CellState & { id: string; key: string })[] {
    return this.#in('unsent');
  }

  /** Writes cells as one act of the person; `label` names it in messages. */
  write(changes: readonly Change[], label: string): Promise<void> {
    const known = changes.map((change): Change => {
      const waiting = this.of(change.id, change.key);
      return waiting?.state === 'unsent' ? { ...change, before: waiting.before, etag: waiting.etag } : change;
    });
    for (const { id, key, ...change } of known) this.#cells.set(nameOf(id, key), { state: 'saving', ...change });
    this.#changed();
    return this.#queued(known, () => this.#send(known, label, false));
  }

  /** Writes cells that need not be on the page, such as one field of all selected records. */
  async bulk(changes: readonly Change[], label: string, options: BulkOptions): Promise<Outcome[]> {
    let outcomes: Outcome[] = [];
    await this.#queued(changes, async () => {
      const onPart = (part: readonly Outcome[]): void => {
        this.#note(part);
        options.onPart(part);
      };
      outcomes = await writeCells(this.target, changes, { ...options, onPart });
      this.#remember(stepOf(label, outcomes));
    });
    return outcomes;
  }

  /** After a lost race: the record stays as the other wrote it. */
  takeTheirs(id: string, key: string): void {
    this.discard(id, key);
  }

  /** After a lost race: writes over what the other wrote, which the person has seen. */
  async keepMine(id: string, key: string, label: string): Promise<void> {
    const cell = this.of(id, key);
    if (cell === undefined) return;
    await this.write([{ id, key, before: cell.theirs, value: cell.value, etag: cell.etag }], label);
  }

  discard(id: string, key: string): void {
    if (this.#cells.delete(nameOf(id, key))) this.#changed();
  }

  /** Records were deleted as one act of the person; undoing it brings them back. */
  deleted(deleted: readonly Deleted[], label: string): void {
    this.#remember({ label, changes: [], deleted });
  }

  undo(): Promise<void> {
    return this.#turn('undone');
  }

  redo(): Promise<void> {
    return this.#turn('redone');
  }

  /** Tries to send what waits for the connection. */
  async sendAgain(): Promise<void> {
    const waiting = this.unsent();
    if (waiting.length === 0 || this.#isSending) return;
    this.#isSending = true;
    try {
      const changes = waiting.map(({ id, key, before, value, etag }) => ({ id, key, before, value, etag }));
      await this.#queued(changes, () => this.#send(changes, 'what was written without a connection', true));
    } finally {
      this.#isSending = false;
    }
  }

  /** Does it when what is under way for these records has ended. */
  #queued(changes: readonly Change[], act: () => Promise<void>): Promise<void> {
    const ids = new Set(changes.map(({ id }) => id));
    const run = Promise.allSettled([...ids].map((id) => this.#queues.get(id))).then(act);
    for (const id of ids) this.#queues.set(id, run);
    return run.finally(() => {
      for (const id of ids) if (this.#queues.get(id) === run) this.#queues.delete(id);
    });
  }

  async #send(changes: readonly Change[], label: string, wasUnsent: boolean): Promise<void> {
    const outcomes = await writeCells(this.target, this.#latest(changes), { onPart: (part) => this.#settle(part) });
    this.#remember(stepOf(label, outcomes));
    if (this.unsent().length > 0) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.sendAgain(), AGAIN_MS);
    }
    this.onNotice({ kind: 'written', outcomes, wasUnsent });
  }

  #turn(kind: 'undone' | 'redone'): Promise<void> {
    const next = this.#turns.then(async () => {
      await Promise.allSettled(this.#queues.values());
      const step = kind === 'undone' ? this.history.takeUndo() : this.history.takeRedo();
      if (step === undefined) return this.onNotice({ kind: kind === 'undone' ? 'undo-empty' : 'redo-empty' });
      if (step.deleted !== undefined) return this.#bringBack(step, step.deleted);
      const outcomes = await writeCells(this.target, this.#latest(step.changes), {
        onPart: (part) => this.#note(part),
      });
      this.history.turned(kind, stepOf(step.label, outcomes));
      this.history.notTurned(kind, { label: step.label, changes: outcomes.filter((one) => one.kind === 'unsent') });
      this.#changed();
      this.onNotice({ kind, label: step.label, outcomes });
    });
    this.#turns = next.catch(() => undefined);
    return next;
  }

  /** Says itself what became of them. Those that wait for a connection can be undone again. */
  async #bringBack({ label }: Step, deleted: readonly Deleted[]): Promise<void> {
    const { bringBackAll } = await import('../history/bring-back.ts');
    const left = await bringBackAll(this.target, label, deleted);
    this.history.notTurned('undone', { label, changes: [], deleted: left });
    this.#changed();
    if (left.length < deleted.length) this.onNotice({ kind: 'back' });
  }

  /** The changes with the ETags that our own writes have led to since. */
  #latest(changes: readonly Change[]): Change[] {
    return changes.map((change) => {
      let { etag } = change;
      for (
        let next = etag;
        next !== undefined && next !== null;
        next = this.#successors.get(nameOf(change.id, next)) ?? null
      )
        etag = next;
      return { ...change, etag };
    });
  }

  /** Shows the records as they are now. */
  #note(outcomes: readonly Outcome[]): void {
    for (const outcome of outcomes) {
      if (outcome.kind !== 'saved' && outcome.kind !== 'merged' && outcome.kind !== 'overtaken') continue;
      if (outcome.kind !== 'overtaken' && outcome.etag !== null && outcome.now !== null && outcome.etag !== outcome.now)
        this.#successors.set(nameOf(outcome.id, outcome.etag), outcome.now);
      this.rows?.put(outcome.row, outcome.now);
    }
  }

  /** Shows what became of each cell. One that was discarded or written again meanwhile stays as it is. */
  #settle(outcomes: readonly Outcome[]): void {
    this.#note(outcomes);
    for (const outcome of outcomes) {
      const name = nameOf(outcome.id, outcome.key);
      const { before, value } = outcome;
      const isLast = this.#cells.get(name)?.value === value;
      if (!isLast) continue;
      if (outcome.kind === 'unsent') this.#cells.set(name, { state: 'unsent', before, value, etag: outcome.etag });
      else if (outcome.kind === 'refused')
        this.#cells.set(name, { state: 'refused', before, value, etag: null, message: outcome.message });
      else if (outcome.kind === 'overtaken') {
        const { row, now } = outcome;
        const theirs = row[outcome.key];
        this.#cells.set(name, { state: 'overtaken', before, value, theirs, by: row.updatedBy, etag: now });
      } else this.#cells.delete(name);
    }
    this.#changed();
  }

  #remember(step: Step): void {
    if (step.changes.length > 0 || step.deleted !== undefined) this.history.push(step);
    this.#changed();
  }

  #in(state: CellState['state']): (CellState & { id: string; key: string })[] {
    return [...this.#cells].flatMap(([name, cell]) => {
      const at = name.indexOf(' ');
      return cell.state === state ? [{ ...cell, id: name.slice(0, at), key: name.slice(at + 1) }] : [];
    });
  }

  #changed(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}

function nameOf(id: string, key: string): string {
  return `${id} ${key}`;
}

const kept = new Map<string, Edits>();
session.subscribe(() => session.get() === null && kept.clear());

/** The edits of an entity's records in this tab. */
export function editsOf(tenant: string, path: string): Edits {
  const name = `${tenant} ${path}`;
  const edits = kept.get(name) ?? new Edits({ tenant, path });
  kept.set(name, edits);
  return edits;
}
