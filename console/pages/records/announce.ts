// Says what came of an act in the grid, in one message a kind.
import type { Edits, Notice } from '../../grid/edits.ts';
import type { Outcome } from '../../grid/write-cells.ts';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { counted } from '../../parts/value.ts';

export function announce(notice: Notice, edits: Edits): void {
  if (notice.kind === 'written') written(notice.outcomes, notice.wasUnsent, edits);
  else if (notice.kind === 'undo-empty') saySuccess({ title: 'Nothing to undo.', kind: 'undone' });
  else if (notice.kind === 'redo-empty') saySuccess({ title: 'Nothing to do again.', kind: 'undone' });
  else if ('label' in notice)
    turned(notice.kind === 'undone' ? 'Undone' : 'Done again', notice.label, notice.outcomes, edits);
}

function written(outcomes: readonly Outcome[], wasUnsent: boolean, edits: Edits): void {
  const saved = outcomes.filter(isWritten);
  const refused = outcomes.filter(({ kind }) => kind === 'refused').length;
  const isOne = outcomes.length === 1;
  const merged = outcomes.some(({ kind }) => kind === 'merged');
  const title = wasUnsent
    ? `Connected again. ${counted(saved.length, 'change')} saved.`
    : isOne
      ? 'Saved.'
      : `${counted(saved.length, 'cell')} saved.`;
  const text = merged ? `${title} Someone else changed another field meanwhile.` : title;
  if (saved.length > 0) saySuccess({ title: text, kind: 'saved', undo: () => void edits.undo() });
  if (refused > 0 && !isOne) {
    sayError({
      title: `${counted(refused, 'cell')} refused. Each shows why; Esc brings its value back.`,
      kind: 'refused',
    });
  }
}

function turned(verb: 'Undone' | 'Done again', label: string, outcomes: readonly Outcome[], edits: Edits): void {
  const done = outcomes.filter(isWritten).length;
  if (done === outcomes.length) {
    const again = verb === 'Undone' ? {} : { undo: () => void edits.undo() };
    saySuccess({ title: `${verb}.`, description: label, kind: 'undone', ...again });
    return;
  }
  const reason = outcomes.some(({ kind }) => kind === 'unsent')
    ? 'no connection'
    : outcomes.length === 1
      ? 'someone changed this record after you'
      : 'the others were changed by someone else or refused';
  const title =
    done === 0
      ? `Not ${verb.toLowerCase()}: ${reason}.`
      : `${done} of ${counted(outcomes.length, 'cell')} ${verb.toLowerCase()}; ${reason}.`;
  sayError({ title, description: label, kind: 'undone' });
}

function isWritten({ kind }: Outcome): boolean {
  return kind === 'saved' || kind === 'merged';
}
