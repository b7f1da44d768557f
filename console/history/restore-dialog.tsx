// The question before a version is restored: what would change, field by field. It follows the history while it is open.
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import type { Entity, Row } from '../api/answers.ts';
import { get } from '../api/call.ts';
import { keyOf } from '../api/queries.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Skeleton } from '../parts/states.tsx';
import { sayError, saySuccess } from '../parts/toast.tsx';
import { counted, time } from '../parts/value.ts';
import { restore } from './bring-back.ts';
import { Changes, type Difference } from './changes.tsx';
import { Obstacles } from './obstacles.tsx';
import { recordPath, type Version, valuesThen } from './versions.ts';

interface Props {
  tenant: string;
  entity: Entity;
  /** As it is now, or was last. */
  row: Row;
  title: string;
  versions: readonly Version[];
  version: number;
  /** Something was written, or the history is not what it was. */
  onChanged: () => void;
  onClose: () => void;
}

export function RestoreDialog({ tenant, entity, row, title, versions, version, onChanged, onClose }: Props) {
  const cancel = useRef<HTMLButtonElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [newest] = versions;
  const isDeleted = newest?.event === 'record.deleted';
  const place = versions.findIndex((one) => one.version === version && one.event !== 'record.deleted');
  const then = useThen({ tenant, entity, row, versions, place });
  const path = recordPath(entity.name, row.id);
  const confirm = async (): Promise<void> => {
    if (newest === undefined) return;
    setBusy(true);
    setFailure(null);
    try {
      const etag = await restore(tenant, path, version, `"${newest.version}"`);
      const undo = async (): Promise<void> => {
        await restore(tenant, path, newest.version, etag ?? '*').then(
          () => saySuccess({ title: 'Undone.', kind: 'undone' }),
          sayNotUndone,
        );
        onChanged();
      };
      saySuccess({
        title: isDeleted ? `${title} is back, as in version ${version}.` : `Version ${version} was restored.`,
        kind: 'restored',
        // What came back is there for everybody now: taking that back is a deletion, which asks first.
        ...(!isDeleted && { undo: () => void undo() }),
      });
      onClose();
    } catch (cause) {
      setFailure(cause);
      setBusy(false);
    }
    onChanged();
  };
  return (
    <Dialog
      title={`Restore version ${version} of ${title}?`}
      onClose={onClose}
      initialFocus={cancel}
      wide
      actions={
        <>
          <button ref={cancel} type="button" className="button plain" onClick={onClose}>
            Cancel
          </button>
          <Button kind="primary" busy={isBusy} onClick={() => void confirm()}>
            Restore
          </Button>
        </>
      }
    >
      <div className="stack">
        {failure !== null && <Obstacles entity={entity} error={failure} />}
        <p>{sentenceOf(isDeleted, then.differences, versions[place]?.at)}</p>
        {then.differences === null && then.error === null && <Skeleton lines={3} />}
        {then.error !== null && <ErrorPanel title="What would change is not known." error={then.error} />}
        {then.differences !== null && <Changes {...{ tenant, entity }} differences={then.differences} />}
        <p className="caption">
          Restoring is a new change: rules apply, webhooks and streams see it, and the versions since stay in the
          history.
        </p>
      </div>
    </Dialog>
  );
}

function sayNotUndone(): void {
  sayError({ title: 'Not undone: someone changed this record after you. See its history.', kind: 'undone' });
}

function sentenceOf(isDeleted: boolean, differences: readonly Difference[] | null, at: string | undefined): string {
  const then = at === undefined ? 'then' : `on ${time(at)}`;
  if (isDeleted) return `The record comes back under its id, as it was ${then}:`;
  if (differences === null) return `The record becomes what it was ${then}.`;
  if (differences.length === 0) return 'Nothing that you see would change: the record is as it was then.';
  return `${counted(differences.length, 'field')} would change back to what ${differences.length === 1 ? 'it was' : 'they were'} ${then}:`;
}

interface ThenOptions extends Pick<Props, 'tenant' | 'entity' | 'row' | 'versions'> {
  place: number;
}

/** What restoring the version at this place changes; null until it is known. */
function useThen({ tenant, entity, row, versions, place }: ThenOptions) {
  const known = place < 0 ? null : valuesThen(versions, place);
  const at = versions[place]?.at ?? '';
  const { data, error } = useQuery({
    queryKey: keyOf(tenant, 'as-of', entity.name, row.id, at),
    queryFn: ({ signal }) => get<Row>(recordPath(entity.name, row.id), { tenant, signal, query: { asOf: at } }),
    enabled: known === null && at !== '',
  });
  const isDeleted = versions[0]?.event === 'record.deleted';
  const valueAt = (key: string): unknown => (known === null ? data?.[key] : known.has(key) ? known.get(key) : row[key]);
  if (known === null && data === undefined) return { differences: null, error };
  const differences = entity.fields.flatMap(({ key }): Difference[] => {
    const to = valueAt(key) ?? null;
    if (isDeleted) return to === null ? [] : [{ key, to }];
    const from = row[key] ?? null;
    return JSON.stringify(from) === JSON.stringify(to) ? [] : [{ key, from, to }];
  });
  return { differences, error };
}
