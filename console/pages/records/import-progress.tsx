// An import under way or over: how far it is, what was imported, the lines that were refused, to be taken as a file,
// and the way back: resuming after an early end, and deleting what was created.
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { saveFile } from '../../parts/save-file.ts';
import { Notice, Progress } from '../../parts/states.tsx';
import { counted, bytes as sizeOf } from '../../parts/value.ts';
import { RefusedLines } from './import-refused.tsx';
import type { ImportRun, ImportState } from './import-run.ts';
import { type Undone, undoImport } from './import-undo.ts';

interface Props {
  title: string;
  run: ImportRun;
  onClose: () => void;
  onAgain: () => void;
  /** The list is another than before. */
  onImported: () => void;
}

export function ImportProgress({ title, run, onClose, onAgain, onImported }: Props) {
  const state = useSyncExternalStore(run.subscribe, run.get);
  const [undone, setUndone] = useState<Undone | null>(null);
  const isRunning = state.state === 'running' || state.state === 'ending';
  const told = useRef(false);
  useEffect(() => {
    if (!isRunning && !told.current) onImported();
    told.current = !isRunning;
  }, [isRunning, onImported]);
  const finish = (): void => {
    onAgain();
    onClose();
  };
  return (
    <Dialog
      wide
      title={title}
      onClose={onClose}
      actions={
        isRunning ? (
          <>
            <Button busy={state.state === 'ending'} onClick={() => run.cancel()}>
              Cancel
            </Button>
            <Button kind="primary" onClick={onClose}>
              Continue in the background
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onAgain}>Import more</Button>
            <Button kind="primary" onClick={finish}>
              Done
            </Button>
          </>
        )
      }
    >
      <div className="stack">
        {isRunning && (
          <Progress
            value={state.bytes}
            max={Math.max(1, state.totalBytes)}
            label={`${sizeOf(state.bytes)} of ${sizeOf(state.totalBytes)}`}
          />
        )}
        <p role="status">{summaryOf(state)}</p>
        {isRunning && <p className="caption">You can leave this page; closing the tab ends the import.</p>}
        {state.state === 'failed' && (
          <ErrorPanel title="The import ended before the end of the file." error={state.failure} />
        )}
        {!isRunning && <Rest state={state} onResume={() => void run.run()} />}
        {undone === null ? (
          !isRunning && <Undo run={run} state={state} onUndone={setUndone} onChanged={onImported} />
        ) : (
          <Notice>{undoneOf(undone)}</Notice>
        )}
        {!isRunning && state.refused > 0 && (
          <>
            <div>
              <Button icon="download" onClick={() => saveFile(run.refusedLines(), `${run.entity}-refused.csv`)}>
                Download refused lines
              </Button>
              <p className="caption import-hint">
                Correct them in that file and import it again; it has none of the imported lines.
              </p>
            </div>
            <RefusedLines first={run.firstRefused()} count={state.refused} caption="Refused lines" />
          </>
        )}
      </div>
    </Dialog>
  );
}

/** Lines that were not sent. */
function Rest({ state: { state, next, isNextSure }, onResume }: { state: ImportState; onResume: () => void }) {
  if (state === 'done' || next === null) return null;
  const line = next.toLocaleString('en');
  if (!isNextSure) {
    return (
      <Notice tone="warn">
        The connection ended while the 1,000 lines from line {line} on were being sent: some of them may have been
        imported.
      </Notice>
    );
  }
  return (
    <Notice action={<Button onClick={onResume}>Resume</Button>}>Line {line} and those after it were not sent.</Notice>
  );
}

interface UndoProps {
  run: ImportRun;
  state: ImportState;
  onUndone: (undone: Undone) => void;
  onChanged: () => void;
}

/** Offered only when the created records can be told apart from all others. */
function Undo({ run, state: { span, state }, onUndone, onChanged }: UndoProps) {
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const [isAsked, ask] = useState(false);
  const [done, setDone] = useState<number | null>(null);
  if (span === null || state === 'running' || !rights.may('delete', run.entity)) return null;
  const what = counted(span.count, 'record');
  return (
    <div>
      <Button icon="undo-2" onClick={() => ask(true)}>
        Undo
      </Button>
      {isAsked && (
        <Confirm
          title={`Delete the ${what} of this import?`}
          onClose={() => ask(false)}
          onConfirm={async () => {
            onUndone(await undoImport(tenant, run.entity, span, setDone).finally(onChanged));
          }}
        >
          Those that somebody has changed since stay. Each deletion is a change that webhooks and streams see.
          {done !== null && (
            <Progress value={done} max={span.count} label={`${done.toLocaleString('en')} of ${what}`} />
          )}
        </Confirm>
      )}
    </div>
  );
}

function undoneOf({ deleted, left }: Undone): string {
  const stayed = `${counted(left, 'record')} ${left === 1 ? 'has been' : 'have been'} changed since or cannot be deleted`;
  return `${counted(deleted, 'record')} deleted.${left === 0 ? '' : ` ${stayed}, and ${left === 1 ? 'stays' : 'stay'}.`}`;
}

function summaryOf({ state, created, refused }: ImportState): string {
  const imported = `${counted(created, 'record')} imported.`;
  const wereRefused = refused === 0 ? '' : ` ${counted(refused, 'line')} ${refused === 1 ? 'was' : 'were'} refused.`;
  if (state === 'cancelled') return `Cancelled. ${imported}${wereRefused}`;
  if (state === 'ending') return `${imported}${wereRefused} Cancelling after this part…`;
  return state === 'running' ? `${imported}${wereRefused} Importing…` : imported + wereRefused;
}
