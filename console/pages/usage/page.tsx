// Usage: quotas as bars, what was used by day as plots, and the same numbers as a table.
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';
import { ownTenantQuery } from '../../api/tenant.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useUrlState } from '../../app/router.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select } from '../../parts/field.tsx';
import { Plot } from '../../parts/plot.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { bytes, counted } from '../../parts/value.ts';
import { QuotaBars } from './quota-bars.tsx';
import type { Day, Usage } from './shapes.ts';

const PATH = '/api/tenant/usage';
const RANGES = ['7', '30', '90', '365'];
const DAY_MS = 86_400_000;
type Measure = Exclude<keyof Day, 'day'>;

const number = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 1 });
const MEASURES: readonly { key: Measure; name: string; shown: (value: number) => string; isPlotted: boolean }[] = [
  { key: 'requests', name: 'Requests', shown: number, isPlotted: true },
  { key: 'reads', name: 'Reads', shown: number, isPlotted: true },
  { key: 'writes', name: 'Writes', shown: number, isPlotted: true },
  { key: 'deliveries', name: 'Deliveries', shown: number, isPlotted: true },
  { key: 'events', name: 'Events', shown: number, isPlotted: false },
  { key: 'streamHours', name: 'Stream hours', shown: number, isPlotted: false },
  { key: 'socketHours', name: 'Socket hours', shown: number, isPlotted: false },
  { key: 'sentBytes', name: 'Sent', shown: bytes, isPlotted: false },
];

export default function UsagePage() {
  usePageTitle('Usage');
  const { tenant } = useParams();
  const [state, set] = useUrlState({ days: '30' });
  const range = RANGES.includes(state.days) ? state.days : '30';
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(tenant, 'usage', 'days', range),
    queryFn: ({ signal }) => get<Usage>(PATH, { tenant, signal, query: { from: firstDay(Number(range)) } }),
    placeholderData: keepPreviousData,
  });
  const { data: own } = useQuery(ownTenantQuery(tenant));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Usage</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith(PATH)} />
          <Select label="Show" value={range} onChange={({ target }) => set({ days: target.value })}>
            {RANGES.map((days) => (
              <option key={days} value={days}>
                last {days} days
              </option>
            ))}
          </Select>
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the usage." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && data.days.at(-1)?.requests === 0 && <Notice>No requests yet today.</Notice>}
      {data !== undefined && own !== undefined && <QuotaBars usage={data} quotas={own.quotas} />}
      {data !== undefined && <Plots days={data.days} />}
      {data !== undefined && <Days days={data.days} />}
    </div>
  );
}

/** The first UTC day of the last `days`. */
function firstDay(days: number): string {
  return new Date(Date.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10);
}

function Plots({ days }: { days: readonly Day[] }) {
  const names = useMemo(() => days.map(({ day }) => day), [days]);
  const plotted = useMemo(
    () =>
      MEASURES.filter(({ isPlotted }) => isPlotted).map((measure) => ({
        ...measure,
        values: days.map((day) => day[measure.key]),
      })),
    [days],
  );
  return (
    <div className="usage-plots">
      {plotted.map(({ key, name, shown, values }) => (
        <section key={key} className="panel" aria-labelledby={`usage-${key}`}>
          <header>
            <h2 id={`usage-${key}`}>{name}</h2>
            <span className="caption num">{shown(values.reduce((sum, value) => sum + value, 0))} in total</span>
          </header>
          <div className="pad">
            <Plot days={names} values={values} shown={shown} />
          </div>
        </section>
      ))}
    </div>
  );
}

function Days({ days }: { days: readonly Day[] }) {
  const rows = useMemo(() => [...days].reverse(), [days]);
  return (
    <section className="stack" aria-labelledby="usage-days">
      <h2 id="usage-days">By day</h2>
      <p className="caption">
        {counted(days.length, 'UTC day')}, newest first. Reads are counted by request, writes by record.
      </p>
      <div className="usage-days">
        <Table
          caption="Usage by day"
          rows={rows}
          keyOf={({ day }) => day}
          columns={[
            { key: 'day', header: 'day', cell: ({ day }) => <span className="num">{day}</span> },
            ...MEASURES.map(({ key, name, shown, isPlotted }) => ({
              key,
              header: name.toLowerCase(),
              align: 'right' as const,
              cell: (day: Day) => shown(day[key]),
              isMinor: !isPlotted,
            })),
          ]}
        />
      </div>
    </section>
  );
}
