// Schema: the entities of the tenant, made, described and deleted. One of them opens its fields.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { entitiesQuery } from '../../api/queries.ts';
import { NoRight } from '../../app/no-right.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { go, useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Count } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { DropEntity } from '../../schema/drop.tsx';
import { EntityForm } from '../../schema/entity-form.tsx';
import { useEntityCounts } from '../home/counts.ts';

export default function Schema() {
  usePageTitle('Schema');
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const [link, setLink] = useUrlState({ new: '' });
  const [dropping, drop] = useState<Entity | null>(null);
  const { data, error, refetch } = useQuery(entitiesQuery(tenant));
  const counts = useEntityCounts(tenant, rights.isAdmin, []);
  if (rights.me !== undefined && !rights.isAdmin) return <NoRight what="change the schema" role={rights.role} />;
  const path = (name: string): string => `/app/t/${tenant}/schema/${name}`;
  const make = (
    <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => setLink({ new: '1' })}>
      New entity
    </Button>
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>Schema</h1>
        <div className="row">
          <CopyAsCurl of={({ path: called }) => called.startsWith('/api/entities')} />
          {data?.length !== 0 && make}
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the entities." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon="database" action={make}>
          {tenant} has no entities yet. An entity is a kind of record, like companies or tasks.
        </Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <LongTable
          caption="Entities"
          noun="entities"
          textOf={({ name, label }) => `${name} ${label ?? ''}`}
          rows={data}
          keyOf={({ name }) => name}
          href={({ name }) => path(name)}
          columns={[
            { key: 'name', header: 'entity', cell: ({ name }) => name },
            {
              key: 'label',
              header: 'label',
              cell: ({ label }) => label ?? <span className="dim">—</span>,
              isMinor: true,
            },
            { key: 'fields', header: 'fields', align: 'right', cell: ({ fields }) => fields.length },
            { key: 'records', header: 'records', align: 'right', cell: ({ name }) => <Count value={counts[name]} /> },
          ]}
          actions={(entity) =>
            entity.isSystem ? null : (
              <Button
                kind="quiet"
                icon="trash-2"
                aria-label={`Delete ${entity.name}`}
                disabledReason={block}
                onClick={() => drop(entity)}
              />
            )
          }
        />
      )}
      {link.new !== '' && (
        <EntityForm onClose={() => setLink({ new: null }, { replace: true })} onCreated={(name) => go(path(name))} />
      )}
      {dropping !== null && <DropEntity entity={dropping} onClose={() => drop(null)} />}
    </div>
  );
}
