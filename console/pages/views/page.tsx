// Views: filters with a name. Listed with what they hold, made and changed with the builder, deleted, opened in the grid.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { del } from '../../api/call.ts';
import { entitiesQuery, keyOf } from '../../api/queries.ts';
import { conditionOf, type View, viewCountQuery, viewsQuery } from '../../api/views.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Count } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ViewForm } from './view-form.tsx';

export default function Views() {
  usePageTitle('Views');
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const client = useQueryClient();
  const [link, setLink] = useUrlState({ new: '', edit: '' });
  const [deleted, choose] = useState<View | null>(null);
  const { data, error, refetch } = useQuery(viewsQuery(tenant));
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const edited = data?.find(({ slug }) => slug === link.edit);
  const refresh = () => client.invalidateQueries({ queryKey: keyOf(tenant, 'views') });
  const remove = async (view: View): Promise<void> => {
    await del(`/api/views/${view.slug}`, { tenant });
    await refresh();
    saySuccess({ title: `${view.name} was deleted.` });
  };
  const make = rights.isAdmin && (
    <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => setLink({ new: '1' })}>
      New view
    </Button>
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>Views</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith('/api/views')} />
          {data?.length !== 0 && make}
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the views." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon="list-filter" action={make || undefined}>
          A view is a named filter that roles can be allowed to read.
        </Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <LongTable
          caption="Views"
          noun="views"
          textOf={({ name, slug, entitySlug }) => `${name} ${slug} ${entitySlug}`}
          rows={data}
          keyOf={({ id }) => id}
          href={(view) => `/app/t/${tenant}/records/${view.entitySlug}?view=${view.slug}`}
          columns={[
            { key: 'name', header: 'view', cell: ({ name }) => name },
            { key: 'entity', header: 'entity', cell: ({ entitySlug }) => entitySlug },
            { key: 'slug', header: 'name in the API', cell: ({ slug }) => <code>{slug}</code>, isMinor: true },
            {
              key: 'condition',
              header: 'condition',
              cell: (view) => <code>{conditionOf(view) || 'all records'}</code>,
              isMinor: true,
            },
            { key: 'count', header: 'records', align: 'right', cell: (view) => <Size tenant={tenant} view={view} /> },
          ]}
          {...(rights.isAdmin && {
            actions: (view: View) => (
              <>
                <Button
                  kind="quiet"
                  icon="pencil"
                  aria-label={`Edit ${view.name}`}
                  disabledReason={block}
                  onClick={() => setLink({ edit: view.slug })}
                />
                <Button
                  kind="quiet"
                  icon="trash-2"
                  aria-label={`Delete ${view.name}`}
                  disabledReason={block}
                  onClick={() => choose(view)}
                />
              </>
            ),
          })}
        />
      )}
      {(link.new !== '' || edited !== undefined) && rights.isAdmin && entities !== undefined && (
        <ViewForm
          {...(edited === undefined ? {} : { view: edited })}
          entities={entities}
          onSaved={refresh}
          onClose={() => setLink({ new: null, edit: null }, { replace: true })}
        />
      )}
      {deleted !== null && (
        <Confirm
          title={`Delete the view ${deleted.name}?`}
          onConfirm={() => remove(deleted)}
          onClose={() => choose(null)}
        >
          Roles with view:{deleted.slug} can no longer read it, and programs that request it get a 404. Its records
          stay.
        </Confirm>
      )}
    </div>
  );
}

function Size({ tenant, view }: { tenant: string; view: View }) {
  const { data } = useQuery(viewCountQuery(tenant, view));
  return <Count value={data} />;
}
