// Record: its form, what refers to it and what it refers to, its history, and its JSON. It follows changes by others while it is open;
// unsaved edits are kept until they are saved or discarded.
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense } from 'react';
import type { Entity } from '../../api/answers.ts';
import { statusOf } from '../../api/errors.ts';
import { entityQuery, keyOf } from '../../api/queries.ts';
import { NoRight } from '../../app/no-right.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link } from '../../app/router.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { readRecord } from './draft.ts';
import { RecordView } from './record-view.tsx';

const DeletedRecord = lazy(() => import('./deleted-record.tsx'));

export default function Record() {
  const { tenant, entity: name, id } = useParams();
  const rights = useRights(tenant);
  const { data: entity, error, refetch } = useQuery(entityQuery(tenant, name));
  if (rights.me !== undefined && !rights.may('read', name)) return <NoRight what={`read ${name}`} role={rights.role} />;
  // On the way to another page the link is that of the other page already.
  if (id === '') return null;
  if (entity !== undefined) return <Loaded entity={entity} />;
  return <Waiting error={error} missing={`There is no entity ${name}, or your role may not see it.`} retry={refetch} />;
}

function Loaded({ entity }: { entity: Entity }) {
  const { tenant, id } = useParams();
  const path = `/api/entities/${entity.name}/records/${encodeURIComponent(id)}`;
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(tenant, 'record-version', entity.name, id),
    queryFn: ({ signal }) => readRecord(tenant, path, signal),
    staleTime: 0,
    gcTime: 0,
    // A record that went away says so; a connection that went away keeps what was read.
    refetchOnReconnect: true,
  });
  if (data !== undefined)
    return (
      <RecordView
        key={`${tenant} ${id}`}
        entity={entity}
        read={data}
        isGone={statusOf(error) === 404}
        onRead={() => void refetch()}
      />
    );
  const waiting = (
    <Waiting
      error={error}
      missing="There is no record with this id, or your role may not see it."
      retry={refetch}
      back={`/app/t/${tenant}/records/${entity.name}`}
    />
  );
  if (statusOf(error) !== 404) return waiting;
  return (
    <Suspense fallback={null}>
      <DeletedRecord key={`${tenant} ${id}`} entity={entity} otherwise={waiting} onRestored={() => void refetch()} />
    </Suspense>
  );
}

interface WaitingProps {
  error: unknown;
  missing: string;
  retry: () => unknown;
  back?: string;
}

function Waiting({ error, missing, retry, back }: WaitingProps) {
  const { entity, id } = useParams();
  usePageTitle(id.slice(0, 8));
  const isMissing = [400, 404].includes(statusOf(error));
  return (
    <div className="page">
      <h1>{id.slice(0, 8)}</h1>
      {error === null && <Skeleton lines={8} />}
      {isMissing && (
        <Empty
          icon="file-text"
          action={
            back !== undefined && (
              <Link className="button plain" href={back}>
                Back to {entity}
              </Link>
            )
          }
        >
          {missing}
        </Empty>
      )}
      {error !== null && !isMissing && <ErrorPanel title="Could not load the record." error={error} onRetry={retry} />}
    </div>
  );
}
