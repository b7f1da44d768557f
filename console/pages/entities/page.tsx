// Records: the entities of the tenant, with what they hold. One of them opens its grid.
import { useQuery } from '@tanstack/react-query';
import { entitiesQuery } from '../../api/queries.ts';
import { NoEntities } from '../../app/no-entities.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link } from '../../app/router.tsx';
import { Count } from '../../parts/badge.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { useEntityCounts } from '../home/counts.ts';

export default function Entities() {
  usePageTitle('Records');
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const { data, error, refetch } = useQuery(entitiesQuery(tenant));
  const readable = (data ?? []).filter(({ name }) => rights.may('read', name));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Records</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path === '/api/entities'} />
          {rights.isAdmin && (
            <Link className="button primary" href={`/app/t/${tenant}/schema?new=1`} data-hotkey="n">
              New entity
            </Link>
          )}
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the entities." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && readable.length === 0 && <NoEntities tenant={tenant} rights={rights} />}
      {readable.length > 0 && (
        <LongTable
          caption="Entities"
          noun="entities"
          textOf={({ name, label }) => `${name} ${label ?? ''}`}
          rows={readable}
          keyOf={({ name }) => name}
          href={({ name }) => `/app/t/${tenant}/records/${name}`}
          columns={[
            { key: 'name', header: 'entity', cell: ({ name }) => name },
            {
              key: 'label',
              header: 'label',
              cell: ({ label }) => label ?? <span className="dim">—</span>,
              isMinor: true,
            },
            { key: 'fields', header: 'fields', align: 'right', cell: ({ fields }) => fields.length },
            { key: 'count', header: 'records', align: 'right', cell: ({ name }) => <Size name={name} /> },
          ]}
        />
      )}
    </div>
  );
}

function Size({ name }: { name: string }) {
  const { tenant } = useParams();
  const { isAdmin } = useRights(tenant);
  return <Count value={useEntityCounts(tenant, isAdmin, [name])[name]} />;
}
