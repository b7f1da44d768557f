// Webhooks: the subscriptions of the tenant, failing ones first.
import { useQueries, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import {
  type Health,
  type State,
  SUBSCRIPTIONS,
  type Subscription,
  sentBy,
  subscriptionQuery,
  subscriptionsQuery,
} from '../../api/webhooks.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { SubscriptionState } from '../../parts/subscription-state.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import { NewSubscription } from './new-subscription.tsx';

/** The counts of these are read; those that fail are among them. */
const LOOKED_AT = 20;
const EVERY_MS = 10_000;
const ORDER: readonly State[] = ['failing', 'quota_exceeded', 'ok', 'disabled'];

/** Those that the service has switched off come first: they wait for a person. */
const rankOf = ({ disabled_reason: reason, health }: Subscription): number =>
  health.state === 'disabled' && reason != null ? -1 : ORDER.indexOf(health.state);

type Row = Subscription & { counts: Health | undefined };

export default function Webhooks() {
  usePageTitle('Webhooks');
  const { tenant } = useParams();
  const [isMaking, make] = useState(false);
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery({ ...subscriptionsQuery(tenant), refetchInterval: EVERY_MS });
  const sorted = [...(data ?? [])].sort((a, b) => rankOf(a) - rankOf(b));
  const looked = sorted.slice(0, LOOKED_AT);
  const details = useQueries({ queries: looked.map(({ id }) => subscriptionQuery(tenant, id)) });
  const rows = sorted.map((subscription, at): Row => ({ ...subscription, counts: details[at]?.data?.health }));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Webhooks</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path === SUBSCRIPTIONS} />
          <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
            New subscription
          </Button>
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load the subscriptions." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon="webhook">
          No subscriptions yet. A subscription posts changes to an entity's records to an address.
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          caption="Subscriptions"
          rows={rows}
          keyOf={({ id }) => id}
          href={({ id }) => `/app/t/${tenant}/webhooks/${id}`}
          columns={COLUMNS}
        />
      )}
      {isMaking && <NewSubscription onClose={() => make(false)} />}
    </div>
  );
}

const NONE = <span className="dim">—</span>;

const COLUMNS: readonly Column<Row>[] = [
  { key: 'url', header: 'address', cell: ({ url }) => <span className="webhooks-url">{url}</span> },
  {
    key: 'state',
    header: 'state',
    cell: ({ health, disabled_reason: reason }) => <SubscriptionState state={health.state} isBroken={reason != null} />,
  },
  { key: 'sent', header: 'sends', cell: sentBy, isMinor: true },
  {
    key: 'waiting',
    header: 'waiting',
    align: 'right',
    cell: ({ counts }) => counts?.pending.toLocaleString('en') ?? NONE,
    isMinor: true,
  },
  {
    key: 'failed',
    header: 'failed in 24 h',
    align: 'right',
    cell: ({ counts }) => counts?.failed24h.toLocaleString('en') ?? NONE,
    isMinor: true,
  },
  {
    key: 'said',
    header: 'last failure',
    cell: ({ counts }) =>
      counts?.lastFailureAt == null ? (
        NONE
      ) : (
        <span className="webhooks-said" title={exactTime(counts.lastFailureAt)}>
          {counts.lastError}, {ago(counts.lastFailureAt)}
        </span>
      ),
    isMinor: true,
  },
];
