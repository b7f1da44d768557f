// Schema health: what the check of every tenant's schema found, and a repair that says before what it will do.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { get, post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { session } from '../../api/session.ts';
import { useStore } from '../../api/store.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted, exactTime, time } from '../../parts/value.ts';

interface Issue {
  tenant: string;
  check: string;
  table: string | null;
  column: string | null;
  severity: 'critical' | 'warning';
  fix: string;
}

interface SchemaHealth {
  status: 'healthy' | 'degraded';
  checked_at: string;
  tenants_checked: number;
  tenants_healthy: number;
  tenants_degraded: number;
  issues: Issue[];
}

interface Repair {
  fixed: number;
  errors: { tenant: string; message: string }[];
}

const NAMED = 100;

export function Health() {
  const isSecret = useStore(session)?.kind === 'secret';
  const [isAsked, ask] = useState(false);
  const [left, setLeft] = useState<Repair['errors']>([]);
  const block = useWriteBlock();
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: keyOf(null, 'schema-health'),
    queryFn: ({ signal }) => get<SchemaHealth>('/health/schema', { signal }),
    enabled: isSecret,
  });
  const repair = async (): Promise<void> => {
    const { fixed, errors } = await post<Repair>('/health/schema/fix');
    setLeft(errors);
    await queryClient.invalidateQueries({ queryKey: keyOf(null, 'schema-health') });
    saySuccess({ title: `${counted(fixed, 'tenant')} repaired.` });
  };
  return (
    <>
      <div className="page-head">
        <h1>Schema health</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith('/health/schema')} />
          <Button icon="refresh-cw" busy={isFetching} onClick={() => refetch()}>
            Check again
          </Button>
          {data?.status === 'degraded' && (
            <Button kind="primary" disabledReason={block} onClick={() => ask(true)}>
              Fix
            </Button>
          )}
        </div>
      </div>
      {!isSecret && <Notice>Sign in with the super-admin secret to check schemas.</Notice>}
      {error !== null && <ErrorPanel title="Could not check the schemas." error={error} onRetry={refetch} />}
      {isSecret && data === undefined && error === null && <Skeleton />}
      {data !== undefined && (
        <p className="row">
          <Badge tone={data.status === 'healthy' ? 'ok' : 'bad'}>{data.status}</Badge>
          <span>
            {data.tenants_healthy.toLocaleString('en')} of {counted(data.tenants_checked, 'tenant')} healthy
          </span>
          <span className="caption" title={exactTime(data.checked_at)}>
            checked {time(data.checked_at)}
          </span>
        </p>
      )}
      {left.map(({ tenant, message }) => (
        <Notice key={`${tenant} ${message}`} tone="bad">
          {tenant} could not be repaired: {message}
        </Notice>
      ))}
      {data !== undefined && data.issues.length > 0 && (
        <Table
          caption="Issues"
          rows={data.issues}
          keyOf={({ tenant, check, table, column }) => [tenant, check, table, column].join(' ')}
          columns={[
            { key: 'tenant', header: 'tenant', cell: ({ tenant }) => tenant },
            {
              key: 'severity',
              header: 'severity',
              cell: ({ severity }) => <Badge tone={severity === 'critical' ? 'bad' : 'warn'}>{severity}</Badge>,
            },
            { key: 'check', header: 'check', cell: ({ check }) => <code>{check}</code>, isMinor: true },
            {
              key: 'place',
              header: 'place',
              cell: ({ table, column }) => (
                <code>{[table, column].filter((part) => part !== null).join('.') || '—'}</code>
              ),
            },
            {
              key: 'fix',
              header: 'what Fix does',
              cell: ({ fix }) => fix.replace('POST /health/schema/fix ', ''),
              isMinor: true,
            },
          ]}
        />
      )}
      {isAsked && data !== undefined && (
        <Confirm
          title={`Fix ${counted(data.tenants_degraded, 'tenant')}?`}
          onConfirm={repair}
          onClose={() => ask(false)}
        >
          <p>The missing parts are restored. No data is lost, and you can repeat it safely.</p>
          <div role="region" aria-label="What will be done" tabIndex={0} className="platform-fixes">
            <ul>
              {data.issues.slice(0, NAMED).map(({ tenant, check, table, column, fix }) => (
                <li key={[tenant, check, table, column].join(' ')}>
                  <strong>{tenant}</strong>: {fix.replace('POST /health/schema/fix ', '')}
                </li>
              ))}
            </ul>
          </div>
          {data.issues.length > NAMED && <p className="caption">and {data.issues.length - NAMED} more</p>}
        </Confirm>
      )}
    </>
  );
}
