// The tenants, newest first, with their state and what they use. A row opens the tenant beside the list.
import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Meter } from '../../parts/meter.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { counted } from '../../parts/value.ts';
import { NewTenant } from './new-tenant.tsx';
import { type OperatedTenant, PER_PAGE, TENANTS, tenantsPageQuery } from './shapes.ts';
import { TenantPanel } from './tenant-panel.tsx';

/** The service's limit of a name. */
const LONGEST_NAME = 200;

const COLUMNS: readonly Column<OperatedTenant>[] = [
  { key: 'slug', header: 'slug', cell: ({ slug }) => slug },
  { key: 'name', header: 'name', cell: ({ name }) => <span className="platform-name">{name}</span>, isMinor: true },
  {
    key: 'status',
    header: 'status',
    cell: ({ status }) => <Badge tone={status === 'active' ? 'ok' : 'warn'}>{status}</Badge>,
  },
  { key: 'records', header: 'records', align: 'right', cell: ({ counts }) => counts.records.toLocaleString('en') },
  {
    key: 'quota',
    header: 'of its quota',
    isMinor: true,
    cell: ({ counts, quotas }) =>
      quotas.records == null ? (
        <span className="dim">no limit</span>
      ) : (
        <Meter used={counts.records} limit={quotas.records} />
      ),
  },
  { key: 'users', header: 'people', align: 'right', cell: ({ counts }) => counts.users, isMinor: true },
];

export function Tenants() {
  const [state, set] = useUrlState({ page: '1', tenant: '', search: '' });
  const page = Math.max(1, Number.parseInt(state.page, 10) || 1);
  const [isMaking, make] = useState(false);
  const block = useWriteBlock();
  const wanted = useDeferredValue(state.search.trim());
  const { data, error, refetch } = useQuery(tenantsPageQuery(page, wanted));
  return (
    <>
      <div className="page-head">
        <h1>Tenants</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith(TENANTS)} />
          <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
            New tenant
          </Button>
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the tenants." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.total === 0 && wanted === '' && (
        <Empty icon="building-2">No tenants yet. A tenant is one customer's separate space.</Empty>
      )}
      {data !== undefined && (data.total !== 0 || wanted !== '') && (
        <>
          <input
            className="input narrow"
            type="search"
            aria-label="Search"
            placeholder="Slug or name"
            maxLength={LONGEST_NAME}
            value={state.search}
            onChange={({ target }) => set({ search: target.value, page: null }, { replace: true })}
            data-hotkey="/"
          />
          {data.items.length === 0 ? (
            <p className="dim">No tenant matches “{wanted}”.</p>
          ) : (
            <Table
              caption="Tenants"
              columns={COLUMNS}
              rows={data.items}
              keyOf={({ id }) => id}
              href={({ slug }) => hrefOf(state, slug)}
            />
          )}
          <Pages page={page} total={data.total ?? 0} onChange={(next) => set({ page: String(next) })} />
        </>
      )}
      {state.tenant !== '' && (
        <TenantPanel key={state.tenant} slug={state.tenant} onClose={() => set({ tenant: null })} />
      )}
      {isMaking && <NewTenant onClose={() => make(false)} />}
    </>
  );
}

function hrefOf({ page, search }: { page: string; search: string }, slug: string): string {
  const kept = [
    ['page', page === '1' ? '' : page],
    ['search', search],
    ['tenant', slug],
  ].filter(([, value]) => value !== '');
  return `/app/platform?${new URLSearchParams(kept as [string, string][])}`;
}

export function Pages({ page, total, onChange }: { page: number; total: number; onChange: (page: number) => void }) {
  const last = Math.max(1, Math.ceil(total / PER_PAGE));
  if (last === 1) return <p className="caption">{counted(total, 'tenant')}</p>;
  return (
    <div className="row">
      <Button
        icon="chevron-left"
        disabledReason={page <= 1 ? 'This is the first page' : null}
        onClick={() => onChange(page - 1)}
      >
        Newer
      </Button>
      <Button disabledReason={page >= last ? 'This is the last page' : null} onClick={() => onChange(page + 1)}>
        Older
      </Button>
      <span className="caption num">
        page {page} of {last}, {counted(total, 'tenant')}
      </span>
    </div>
  );
}
