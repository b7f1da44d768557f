// Records: the grid of an entity, with Filter, Search, columns, selection, and "New record". What is shown stands in the
// link, in the names of the API.
import { useQuery } from '@tanstack/react-query';
import { statusOf } from '../../api/errors.ts';
import { entityQuery } from '../../api/queries.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { RecordsList } from './records-list.tsx';
import { ViewOnly } from './view-only.tsx';

export default function Records() {
  const { tenant, entity: name } = useParams();
  usePageTitle(name);
  const rights = useRights(tenant);
  const { data: entity, error, refetch } = useQuery(entityQuery(tenant, name));
  if (rights.me !== undefined && !rights.may('read', name)) return <ViewOnly />;
  if (entity !== undefined) return <RecordsList key={`${tenant} ${name}`} entity={entity} />;
  return (
    <div className="page">
      <h1>{name}</h1>
      {error === null && <Skeleton lines={12} />}
      {statusOf(error) === 404 && (
        <Empty icon="table-2">
          There is no entity {name}, or your role {rights.role} may not see it.
        </Empty>
      )}
      {error !== null && statusOf(error) !== 404 && (
        <ErrorPanel title={`Could not load ${name}.`} error={error} onRetry={refetch} />
      )}
    </div>
  );
}
