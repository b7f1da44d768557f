// "Delete" of the selected records: each by itself, with the version that was read, so that one that someone changes
// meanwhile stays. What was refused is named. Undo brings them back, if they are not too many.
import { useEffect, useRef, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { isAborted, OfflineError } from '../../api/errors.ts';
import { useRights } from '../../app/rights.ts';
import type { Edits } from '../../grid/edits.ts';
import type { Rows } from '../../grid/rows.ts';
import { countOf, type Selection } from '../../grid/selection.ts';
import { PER_CALL, sendBulk } from '../../grid/write-cells.ts';
import { type Deleted, versionOf } from '../../history/bring-back.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted } from '../../parts/value.ts';
import { blockOf } from './bulk-edit.tsx';
import { type Refusal, Refusals, Working } from './bulk-run.tsx';
import { readSelected, type SelectedRecord } from './selected.ts';

interface Props {
  entity: Entity;
  rows: Rows;
  edits: Edits;
  selection: Selection;
  /** Some, or all, were deleted: the list is to be read again. */
  onDeleted: () => void;
  onClose: () => void;
}

/** From there the number must be typed first. */
const MANY = 100;
/** Each comes back by a call of its own: more than these are restored from "Deleted". */
const MOST_BACK = 500;

type Phase =
  | { name: 'question' }
  | { name: 'working'; what: string; value: number; max: number }
  | { name: 'done'; text: string; refused: Refusal[]; canUndo: boolean };

export default function BulkDelete({ entity, rows, edits, selection, onDeleted, onClose }: Props) {
  const [phase, setPhase] = useState<Phase>({ name: 'question' });
  const [failure, setFailure] = useState<unknown>(null);
  const [typed, setTyped] = useState('');
  const rights = useRights(rows.query.tenant);
  const cancel = useRef<HTMLButtonElement>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const [count] = useState(() => countOf(selection, rows.total));
  const number = String(count ?? '');
  const isMany = (count ?? 0) >= MANY;
  const isWorking = phase.name === 'working';

  const run = async (): Promise<void> => {
    const abort = new AbortController();
    running.current = abort;
    setFailure(null);
    const report = (what: string, max: number) => (value: number) => setPhase({ name: 'working', what, value, max });
    const deleted: Deleted[] = [];
    try {
      report('Read', count ?? 0)(0);
      const records = await readSelected(entity, rows, selection, '', abort.signal, report('Read', count ?? 0));
      const refused: Refusal[] = [];
      let begun = 0;
      for (; begun < records.length && !abort.signal.aborted; begun += PER_CALL) {
        report('Deleted', records.length)(begun);
        const part = await deletePart(rows, records.slice(begun, begun + PER_CALL));
        const stayed = new Set(part.map(({ id }) => id));
        for (const { id, title, etag } of records.slice(begun, begun + PER_CALL)) {
          if (!stayed.has(id)) deleted.push({ id, title, version: versionOf(etag) });
        }
        refused.push(...part);
      }
      remember(deleted);
      finish(deleted.length, refused, Math.max(0, records.length - begun));
    } catch (cause) {
      remember(deleted);
      if (!isAborted(cause)) setFailure(cause);
      setPhase({ name: 'question' });
    }
    if (deleted.length > 0) onDeleted();
  };
  const canUndo = (deleted: number): boolean =>
    deleted > 0 && deleted <= MOST_BACK && rights.may('create', entity.name);
  const remember = (deleted: readonly Deleted[]): void => {
    if (canUndo(deleted.length)) edits.deleted(deleted, `the deletion of ${counted(deleted.length, 'record')}`);
  };
  const finish = (deleted: number, refused: Refusal[], left: number): void => {
    const text = `${counted(deleted, 'record')} deleted.`;
    if (refused.length === 0 && left === 0) {
      saySuccess({ title: text, ...(canUndo(deleted) && { undo: () => void edits.undo() }) });
      onClose();
      return;
    }
    const more = [
      refused.length > 0 ? `${counted(refused.length, 'record')} not deleted.` : '',
      left > 0 ? `Stopped: ${counted(left, 'record')} not begun.` : '',
    ];
    setPhase({ name: 'done', text: [text, ...more].join(' '), refused, canUndo: canUndo(deleted) });
  };
  const stop = (): void => {
    if (isWorking) running.current?.abort();
    else onClose();
  };
  const missing = isMany && typed.replaceAll(',', '') !== number ? `Type ${number} first` : null;
  return (
    <Dialog
      title={`Delete ${count === null ? 'all records' : counted(count, 'record')} of ${entity.name}?`}
      onClose={stop}
      isStrict={isWorking}
      initialFocus={cancel}
      actions={
        phase.name === 'done' ? (
          <>
            {phase.canUndo && (
              <Button
                onClick={() => {
                  void edits.undo();
                  onClose();
                }}
              >
                Undo
              </Button>
            )}
            <Button kind="primary" onClick={onClose}>
              Close
            </Button>
          </>
        ) : (
          <>
            <button ref={cancel} type="button" className="button plain" onClick={stop}>
              {isWorking ? 'Stop' : 'Cancel'}
            </button>
            <Button
              kind="danger"
              busy={isWorking}
              disabledReason={blockOf(count) ?? missing}
              onClick={() => void run()}
            >
              Confirm
            </Button>
          </>
        )
      }
    >
      <div className="stack">
        {failure !== null && (
          <ErrorPanel
            title={failure instanceof OfflineError ? 'The connection was lost.' : 'Not all were deleted.'}
            error={failure}
          />
        )}
        {phase.name === 'done' ? (
          <>
            <p role="status">{phase.text}</p>
            {phase.refused.length > 0 && <Refusals refused={phase.refused} name={`${entity.name}-not-deleted`} />}
          </>
        ) : (
          <p>
            You can bring them back from “Deleted” while their history is kept. Records that refer to them lose the
            link, are deleted too, or keep them from being deleted, as each relation says; that does not come back with
            them. A record that someone changes meanwhile stays.
          </p>
        )}
        {phase.name === 'question' && isMany && (
          <TextField
            label={`Type ${number} to confirm`}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        )}
        {isWorking && <Working what={phase.what} value={phase.value} max={phase.max} />}
      </div>
    </Dialog>
  );
}

/** Those that were not deleted. One that is gone already is deleted. */
async function deletePart(rows: Rows, part: readonly SelectedRecord[]): Promise<Refusal[]> {
  const operations = part.map(({ id, etag }) => ({ op: 'delete', id, ...(etag === null ? {} : { etag }) }));
  const { tenant, entityPath: path } = rows.query;
  const results = await sendBulk({ tenant, path }, operations);
  return results.flatMap(({ success, error }, at) => {
    const record = part[at];
    if (success || error?.code === 'NOT_FOUND' || record === undefined) return [];
    const message = error?.code === 'PRECONDITION_FAILED' ? 'Someone changed it meanwhile.' : (error?.message ?? '');
    return [{ id: record.id, title: record.title, message }];
  });
}
