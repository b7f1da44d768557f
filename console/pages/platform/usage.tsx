// What each tenant used in the last days, and all tenants of the page together by day.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { Page } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';
import { Link, useUrlState } from '../../app/router.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Plot } from '../../parts/plot.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { bytes } from '../../parts/value.ts';
import { PER_PAGE } from './shapes.ts';
import { Pages } from './tenants.tsx';

const PATH = '/api/admin/platform/usage';
const COUNTS = ['requests', 'writes', 'deliveries', 'sentBytes'] as const;
type Count = (typeof COUNTS)[number];

interface Usage {
  tenant: string;
  days: ({ day: string } & Record<Count, number>)[];
  now: { records: Record<string, number>; storageBytes: number; users: number };
}

interface Total extends Record<Count, number> {
  tenant: string;
  records: number;
  storageBytes: number;
}

function totalOf({ tenant, days, now }: Usage): Total {
  const sum = (count: Count): number => days.reduce((all, day) => all + day[count], 0);
  return {
    tenant,
    requests: sum('requests'),
    writes: sum('writes'),
    deliveries: sum('deliveries'),
    sentBytes: sum('sentBytes'),
    records: Object.values(now.records).reduce((all, count) => all + count, 0),
    storageBytes: now.storageBytes,
  };
}

export function PlatformUsage() {
  const [state, set] = useUrlState({ page: '1' });
  const page = Math.max(1, Number.parseInt(state.page, 10) || 1);
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(null, 'usage', page),
    queryFn: ({ signal }) => get<Page<Usage>>(PATH, { signal, query: { page, limit: PER_PAGE } }),
    placeholderData: keepPreviousData,
  });
  const totals = useMemo(() => (data?.items ?? []).map(totalOf), [data]);
  const days = useMemo(() => (data?.items[0]?.days ?? []).map(({ day }) => day), [data]);
  const requests = useMemo(
    () => days.map((_, at) => (data?.items ?? []).reduce((all, usage) => all + (usage.days[at]?.requests ?? 0), 0)),
    [data, days],
  );
  return (
    <>
      <div className="page-head">
        <h1>Usage of the last 30 days</h1>
        <CopyAsCurl of={({ path }) => path.startsWith(PATH)} />
      </div>
      {error !== null && <ErrorPanel title="Could not load the usage." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.total === 0 && <Empty icon="chart-column">No tenants yet, so no usage.</Empty>}
      {totals.length > 0 && (
        <>
          <section className="panel" aria-labelledby="platform-requests">
            <header>
              <h2 id="platform-requests">Requests of the tenants below, by day</h2>
            </header>
            <div className="pad">
              <Plot days={days} values={requests} />
            </div>
          </section>
          <Table
            caption="Usage by tenant"
            rows={totals}
            keyOf={({ tenant }) => tenant}
            columns={[
              {
                key: 'tenant',
                header: 'tenant',
                cell: ({ tenant }) => <Link href={`/app/t/${tenant}/usage`}>{tenant}</Link>,
              },
              { key: 'requests', header: 'requests', align: 'right', cell: ({ requests: count }) => number(count) },
              { key: 'writes', header: 'writes', align: 'right', cell: ({ writes }) => number(writes), isMinor: true },
              {
                key: 'deliveries',
                header: 'deliveries',
                align: 'right',
                cell: ({ deliveries }) => number(deliveries),
                isMinor: true,
              },
              { key: 'sent', header: 'sent', align: 'right', cell: ({ sentBytes }) => bytes(sentBytes), isMinor: true },
              { key: 'records', header: 'records now', align: 'right', cell: ({ records }) => number(records) },
              {
                key: 'stored',
                header: 'stored now',
                align: 'right',
                cell: ({ storageBytes }) => bytes(storageBytes),
                isMinor: true,
              },
            ]}
          />
          <Pages page={page} total={data?.total ?? 0} onChange={(next) => set({ page: String(next) })} />
        </>
      )}
    </>
  );
}

const number = (count: number): string => count.toLocaleString('en');
