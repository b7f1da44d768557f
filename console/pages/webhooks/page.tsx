// Webhooks: the subscriptions of the tenant, failing ones first.
import { useQueries, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import {
  answerOf,
  deliveriesQuery,
  isFailing,
  type State,
  SUBSCRIPTIONS,
  stateOf,
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
import { Table } from '../../parts/table.tsx';
import { NewSubscription } from './new-subscription.tsx';

/** The deliveries of these are read to tell which fail; a tenant seldom has more. */
const LOOKED_AT = 20;
const RECENT = 20;
const ORDER: readonly State[] = ['failing', 'quota', 'ok', 'idle', 'off'];

export default function Webhooks() {
  usePageTitle('Webhooks');
  const { tenant } = useParams();
  const [isMaking, make] = useState(false);
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(subscriptionsQuery(tenant));
  const looked = (data ?? []).slice(0, LOOKED_AT);
  const deliveries = useQueries({ queries: looked.map(({ id }) => deliveriesQuery(tenant, id, RECENT)) });
  const rows = (data ?? [])
    .map((subscription, at) => {
      const recent = deliveries[at]?.data;
      return { ...subscription, recent, state: stateOf(subscription, recent) };
    })
    .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
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
          columns={[
            { key: 'url', header: 'address', cell: ({ url }) => <span className="webhooks-url">{url}</span> },
            { key: 'state', header: 'state', cell: ({ state }) => <SubscriptionState state={state} /> },
            { key: 'entity', header: 'entity', cell: ({ entity_name: entity }) => entity },
            {
              key: 'events',
              header: 'events',
              cell: ({ event_types: types }) => types.map((type) => type.replace('record.', '')).join(', '),
              isMinor: true,
            },
            {
              key: 'waiting',
              header: 'waiting',
              align: 'right',
              cell: ({ recent }) => waitingIn(recent?.filter(({ status }) => status === 'pending').length),
              isMinor: true,
            },
            {
              key: 'said',
              header: 'last failure',
              cell: ({ recent }) => {
                const failed = recent?.find(isFailing);
                return failed === undefined ? <span className="dim">—</span> : answerOf(failed);
              },
              isMinor: true,
            },
          ]}
        />
      )}
      {isMaking && <NewSubscription onClose={() => make(false)} />}
    </div>
  );
}

function waitingIn(count: number | undefined): string {
  if (count === undefined) return '—';
  return count >= RECENT ? `${RECENT} or more` : String(count);
}
