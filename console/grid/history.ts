// What this page changed, step by step, to be taken back and made again. A step is one act of the person: a cell, a
// paste, a bulk edit. Each direction writes with the ETags of our own last write, so that nobody's later change is
// overwritten; what cannot be taken back is counted and the rest is done. A new step drops those that were undone.
import type { Deleted } from '../history/bring-back.ts';
import type { Change, Outcome } from './write-cells.ts';

export interface Step {
  /** What it was, such as "amount of Acme" or "stage of 40 records". */
  label: string;
  /** As written: from `before` to `value`; `etag` is that of the record afterwards. */
  changes: readonly Change[];
  /** Records that were deleted, in place of changes; brought back, it is over. */
  deleted?: readonly Deleted[];
}

const MOST_STEPS = 50;
/** Changes of all steps together, so that a page that stays open keeps its memory. */
const MOST_CHANGES = 200_000;

export class History {
  #done: Step[] = [];
  #undone: Step[] = [];

  push(step: Step): void {
    this.#undone = [];
    this.#keep(step);
  }

  /** The step to write next for an undo: the last one, backwards. */
  takeUndo(): Step | undefined {
    const step = this.#done.pop();
    return step && reversed(step);
  }

  /** The step to write next for a redo. */
  takeRedo(): Step | undefined {
    return this.#undone.pop();
  }

  /** `step` was written as one took it. */
  turned(kind: 'undone' | 'redone', step: Step): void {
    if (step.changes.length === 0) return;
    if (kind === 'undone') this.#undone.push(reversed(step));
    else this.#keep(step);
  }

  /** `step` could not be sent: it stays where it was. */
  notTurned(kind: 'undone' | 'redone', step: Step): void {
    if (step.changes.length + (step.deleted?.length ?? 0) === 0) return;
    if (kind === 'undone') this.#keep(reversed(step));
    else this.#undone.push(step);
  }

  #keep(step: Step): void {
    this.#done = [...this.#done, step].slice(-MOST_STEPS);
    const sizeOf = ({ changes, deleted }: Step): number => changes.length + (deleted?.length ?? 0);
    let count = this.#done.reduce((sum, one) => sum + sizeOf(one), 0);
    while (this.#done.length > 1 && count > MOST_CHANGES) count -= sizeOf(this.#done.shift() as Step);
  }
}

function reversed(step: Step): Step {
  const changes = step.changes.map((change) => ({ ...change, before: change.value, value: change.before }));
  return { ...step, changes };
}

/** The step that outcomes make: what was written, with the ETags of the records now. */
export function stepOf(label: string, outcomes: readonly Outcome[]): Step {
  const changes = outcomes.flatMap((outcome) =>
    outcome.kind === 'saved' || outcome.kind === 'merged'
      ? [
          {
            id: outcome.id,
            key: outcome.key,
            before: outcome.before,
            value: outcome.row[outcome.key],
            etag: outcome.now,
          },
        ]
      : [],
  );
  return { label, changes };
}
