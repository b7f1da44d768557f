// In the place of a record that is not there: when it has been deleted, what it was, its history, and the way back.
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { useChanges } from '../../api/use-changes.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { bringBack } from '../../history/bring-back.ts';
import History from '../../history/history.tsx';
import { Obstacles } from '../../history/obstacles.tsx';
import { historyQuery, lastValues, type Version, whoOf } from '../../history/versions.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, exactTime, titleOf } from '../../parts/value.ts';

interface Props {
  entity: Entity;
  /** Shown when there has been no such record, or none that the role may know of. */
  otherwise: ReactNode;
  onRestored: () => void;
}

const FIRST = 20;

export default function DeletedRecord({ entity, otherwise, onRestored }: Props) {
  const { tenant, id } = useParams();
  const { data, error } = useQuery(historyQuery(tenant, entity.name, id, FIRST));
  if (data === undefined && error === null) {
    return (
      <div className="page">
        <Skeleton lines={8} />
      </div>
    );
  }
  const [last] = data?.items ?? [];
  if (last?.event !== 'record.deleted') return otherwise;
  return <Found {...{ entity, last, onRestored }} />;
}

function Found({ entity, last, onRestored }: Omit<Props, 'otherwise'> & { last: Version }) {
  const { tenant, id } = useParams();
  const { me, may, role } = useRights(tenant);
  const block = useWriteBlock();
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const title = titleOf(lastValues(id, last), entity.fields);
  usePageTitle(title);
  useChanges(tenant, entity.name, {
    onChange: (change) => change.id === id && onRestored(),
    onOpen: (isAgain) => isAgain && onRestored(),
  });
  const restore = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      const target = { tenant, path: `/api/entities/${entity.name}/records` };
      await bringBack(target, { id, title, version: last.version });
      saySuccess({ title: `${title} is back.`, kind: 'restored' });
      onRestored();
    } catch (cause) {
      setFailure(cause);
    }
    setBusy(false);
  };
  const isErased = last.erased !== undefined;
  return (
    <div className="page">
      <div className="page-head">
        <h1 className="ellipsis">{title}</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.includes(`/records/${id}/history`)} />
          {!isErased && may('create', entity.name) && (
            <Button
              kind="primary"
              icon="rotate-ccw"
              busy={isBusy}
              disabledReason={block}
              onClick={() => void restore()}
            >
              Restore
            </Button>
          )}
        </div>
      </div>
      <Notice tone="warn">
        <strong>This record was {isErased ? 'erased' : 'deleted'} </strong>
        <time dateTime={last.at} title={exactTime(last.at)}>
          {ago(last.at)}
        </time>{' '}
        by {whoOf(last.actor, me?.id)}.{' '}
        {isErased
          ? 'Its values are gone for good.'
          : may('create', entity.name)
            ? 'Restoring brings it back under its id, as it was last.'
            : `Your role ${role} may not restore it: that needs the right to create ${entity.name}.`}
      </Notice>
      {failure !== null && <Obstacles entity={entity} error={failure} />}
      <History {...{ entity, id, onRestored }} row={null} seen={last.at} />
    </div>
  );
}
