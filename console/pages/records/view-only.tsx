// Records for a role that may not read the entity: through a view that it may read, or which views those are.
import { useQuery } from '@tanstack/react-query';
import { type View, viewsQuery } from '../../api/views.ts';
import { NoRight } from '../../app/no-right.tsx';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link, useUrlState } from '../../app/router.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { RecordsList } from './records-list.tsx';
import { viewEntityQuery } from './view-entity.ts';

export function ViewOnly() {
  const { tenant, entity: name } = useParams();
  const rights = useRights(tenant);
  const [{ view: slug }] = useUrlState({ view: '' });
  const { data, error, refetch } = useQuery(viewsQuery(tenant));
  const views = (data ?? []).filter(({ entitySlug }) => entitySlug === name);
  const chosen = views.find((view) => view.slug === slug);
  if (chosen !== undefined) return <ThroughView key={chosen.slug} view={chosen} />;
  if (data !== undefined) {
    return (
      <NoRight what={`read ${name}`} role={rights.role}>
        {views.length > 0 && <Choices tenant={tenant} views={views} />}
      </NoRight>
    );
  }
  return (
    <div className="page">
      <h1>{name}</h1>
      {error === null && <Skeleton lines={12} />}
      {error !== null && <ErrorPanel title="Could not load the views." error={error} onRetry={refetch} />}
    </div>
  );
}

function Choices({ tenant, views }: { tenant: string; views: readonly View[] }) {
  return (
    <p>
      It may read {views.length === 1 ? 'this view' : 'these views'}:{' '}
      {views.map(({ slug, name, entitySlug }, at) => (
        <span key={slug}>
          {at > 0 && ', '}
          <Link href={`/app/t/${tenant}/records/${entitySlug}?view=${slug}`}>{name}</Link>
        </span>
      ))}
    </p>
  );
}

function ThroughView({ view }: { view: View }) {
  const { tenant } = useParams();
  const { data: entity, error, refetch } = useQuery(viewEntityQuery(tenant, view));
  if (entity !== undefined) return <RecordsList entity={entity} isViewOnly />;
  return (
    <div className="page">
      <h1>{view.name}</h1>
      {error === null && <Skeleton lines={12} />}
      {error !== null && <ErrorPanel title={`Could not load ${view.name}.`} error={error} onRetry={refetch} />}
    </div>
  );
}
