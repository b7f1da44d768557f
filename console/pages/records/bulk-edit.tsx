// "Edit" of the selected records: one field and its new value. The records are read, those that differ are written with
// the versions read, in parts that can be stopped; what was refused is named, and all that was written is one undo step.
import { useEffect, useRef, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { isAborted } from '../../api/errors.ts';
import { useParams } from '../../app/params.ts';
import type { Edits } from '../../grid/edits.ts';
import { FieldControl } from '../../grid/field-control.tsx';
import type { Rows } from '../../grid/rows.ts';
import { countOf, type Selection } from '../../grid/selection.ts';
import { parseText } from '../../grid/values.ts';
import { type Change, isSame, type Outcome } from '../../grid/write-cells.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Checkbox, Select } from '../../parts/field.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted } from '../../parts/value.ts';
import { type Refusal, Refusals, Working } from './bulk-run.tsx';
import { MOST_AT_ONCE, readSelected } from './selected.ts';

interface Props {
  entity: Entity;
  rows: Rows;
  edits: Edits;
  selection: Selection;
  onClose: () => void;
}

type Phase =
  | { name: 'form' }
  | { name: 'reading' | 'writing'; value: number; max: number }
  | { name: 'done'; text: string; refused: Refusal[] };

export default function BulkEdit({ entity, rows, edits, selection, onClose }: Props) {
  const { tenant } = useParams();
  const [key, setKey] = useState('');
  const [typed, setTyped] = useState('');
  const [isEmptied, empty] = useState(false);
  const [problem, setProblem] = useState<string | undefined>();
  const [failure, setFailure] = useState<unknown>(null);
  const [phase, setPhase] = useState<Phase>({ name: 'form' });
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const field = entity.fields.find((one) => one.key === key);
  const [count] = useState(() => countOf(selection, rows.total));
  const missing =
    field === undefined ? 'Choose a field first' : typed === '' && !isEmptied ? 'Enter the new value first' : null;
  const isRunning = phase.name === 'reading' || phase.name === 'writing';

  const run = async (value: unknown): Promise<void> => {
    const abort = new AbortController();
    running.current = abort;
    const max = count ?? 0;
    setFailure(null);
    setPhase({ name: 'reading', value: 0, max });
    try {
      const records = await readSelected(entity, rows, selection, key, abort.signal, (read) =>
        setPhase({ name: 'reading', value: read, max }),
      );
      const titles = new Map(records.map(({ id, title }) => [id, title]));
      const changes = records
        .filter((record) => !isSame(record.value, value))
        .map(({ id, etag, value: before }): Change => ({ id, key, before, value, etag }));
      let written = 0;
      setPhase({ name: 'writing', value: 0, max: changes.length });
      const outcomes = await edits.bulk(changes, `${key} of ${counted(changes.length, 'record')}`, {
        signal: abort.signal,
        onPart: (part) => {
          written += part.length;
          setPhase({ name: 'writing', value: written, max: changes.length });
        },
      });
      finish(outcomes, changes.length, records.length - changes.length, titles);
    } catch (cause) {
      if (!isAborted(cause)) setFailure(cause);
      setPhase({ name: 'form' });
    }
  };
  const finish = (outcomes: readonly Outcome[], wanted: number, same: number, titles: Map<string, string>): void => {
    const refused = outcomes.flatMap((one) => {
      const message = messageOf(one);
      return message === null ? [] : [{ id: one.id, title: titles.get(one.id) ?? one.id, message }];
    });
    const changed = outcomes.length - refused.length;
    const text = [
      `${counted(changed, 'record')} changed.`,
      same > 0 ? `${counted(same, 'record')} had this value already.` : '',
      wanted > outcomes.length ? `Stopped: ${counted(wanted - outcomes.length, 'record')} not begun.` : '',
      refused.length > 0 ? `${counted(refused.length, 'record')} refused.` : '',
    ].join(' ');
    if (refused.length > 0 || wanted > outcomes.length) {
      setPhase({ name: 'done', text, refused });
      return;
    }
    saySuccess({ title: text.trim(), ...(changed > 0 && { undo: () => void edits.undo() }) });
    onClose();
  };
  const submit = (): void => {
    if (field === undefined) return;
    const parsed = isEmptied ? { value: null } : parseText(field, typed);
    if ('problem' in parsed) setProblem(parsed.problem);
    else void run(parsed.value);
  };
  const stop = (): void => {
    if (isRunning) running.current?.abort();
    else onClose();
  };
  return (
    <Dialog
      title={`Edit ${count === null ? 'all records' : counted(count, 'record')} of ${entity.name}`}
      onClose={stop}
      isStrict={isRunning}
      actions={
        phase.name === 'done' ? (
          <>
            <Button
              onClick={() => {
                void edits.undo();
                onClose();
              }}
            >
              Undo
            </Button>
            <Button kind="primary" onClick={onClose}>
              Close
            </Button>
          </>
        ) : (
          <>
            <Button onClick={stop}>{isRunning ? 'Stop' : 'Cancel'}</Button>
            <Button
              kind={isEmptied ? 'danger' : 'primary'}
              busy={isRunning}
              disabledReason={blockOf(count) ?? missing}
              onClick={submit}
            >
              {isEmptied ? 'Empty' : 'Change'} {count === null ? 'all' : counted(count, 'record')}
            </Button>
          </>
        )
      }
    >
      <div className="stack">
        {failure !== null && <ErrorPanel title="Nothing was changed." error={failure} />}
        {phase.name === 'done' ? (
          <>
            <p role="status">{phase.text}</p>
            {phase.refused.length > 0 && <Refusals refused={phase.refused} name={`${entity.name}-refused`} />}
          </>
        ) : (
          <>
            <Select
              label="Field"
              value={key}
              disabled={isRunning}
              onChange={(event) => {
                setKey(event.target.value);
                setTyped('');
                empty(false);
                setProblem(undefined);
              }}
            >
              <option value="" disabled>
                Choose a field
              </option>
              {entity.fields.map((one) => (
                <option key={one.key} value={one.key}>
                  {one.label ?? one.key}
                </option>
              ))}
            </Select>
            {field !== undefined && (
              <FieldControl
                field={{ ...field, description: null, label: 'New value', required: true }}
                tenant={tenant}
                value={typed}
                error={problem}
                disabled={isRunning || isEmptied}
                onChange={(text) => {
                  setTyped(text);
                  setProblem(undefined);
                }}
              />
            )}
            {field !== undefined && !field.required && (
              <Checkbox
                label="Empty the field instead"
                checked={isEmptied}
                disabled={isRunning}
                onChange={() => {
                  empty(!isEmptied);
                  setTyped('');
                  setProblem(undefined);
                }}
              />
            )}
            <p className="caption">Records that someone changes meanwhile keep their value.</p>
            {isRunning && (
              <Working what={phase.name === 'reading' ? 'Read' : 'Changed'} value={phase.value} max={phase.max} />
            )}
          </>
        )}
      </div>
    </Dialog>
  );
}

/** Why so many cannot be changed at once. */
export function blockOf(count: number | null): string | null {
  if (count === null) return 'The records are still being counted.';
  return count > MOST_AT_ONCE ? `At most ${counted(MOST_AT_ONCE, 'record')} at once: narrow the filter.` : null;
}

/** Why a record was not written; null when it was. */
function messageOf(outcome: Outcome): string | null {
  if (outcome.kind === 'refused') return outcome.message;
  if (outcome.kind === 'overtaken') return 'Someone changed it meanwhile.';
  return outcome.kind === 'unsent' ? 'No connection.' : null;
}
