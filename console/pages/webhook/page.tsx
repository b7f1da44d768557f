// One webhook subscription: whether it gets through, its deliveries, what it sends where and for whom, its secret, and the code
// of a receiver.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { del, post, put } from '../../api/call.ts';
import { ApiError } from '../../api/errors.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import {
  awaitDeliveries,
  SUBSCRIPTIONS,
  type SubscriptionDetail,
  sentBy,
  subscriptionQuery,
  subscriptionsQuery,
} from '../../api/webhooks.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { go } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { ReceiverCode } from '../../parts/receiver-code.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { SubscriptionState } from '../../parts/subscription-state.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { Deliveries } from './deliveries.tsx';
import { HealthFigures, HealthNotice } from './health.tsx';
import { Secret } from './secret.tsx';
import { Settings } from './settings.tsx';

export default function Webhook() {
  usePageTitle('Webhook');
  const { tenant, subscription: id } = useParams();
  const { data, error, refetch } = useQuery(subscriptionQuery(tenant, id));
  const isGone = error instanceof ApiError && error.status === 404;
  return (
    <div className="page">
      {isGone && (
        <>
          <h1>Webhook</h1>
          <Empty icon="webhook">There is no subscription with this id. It may have been deleted.</Empty>
        </>
      )}
      {error !== null && !isGone && (
        <ErrorPanel title="Could not load the subscription." error={error} onRetry={refetch} />
      )}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && !isGone && <Loaded tenant={tenant} subscription={data} />}
    </div>
  );
}

function Loaded({ tenant, subscription }: { tenant: string; subscription: SubscriptionDetail }) {
  const { id, url, is_active: isActive, disabled_reason: reason, health } = subscription;
  const block = useWriteBlock();
  const [isEnding, end] = useState(false);
  const test = useSubmit();
  const turn = useSubmit();
  const sendTest = (): void =>
    void test.submit(async () => {
      await post(`${SUBSCRIPTIONS}/${id}/test`, undefined, { tenant });
      await awaitDeliveries(tenant, id);
      saySuccess({ title: 'A test event was sent.', description: 'See the result under Deliveries.', kind: 'test' });
    });
  const setActive = (is_active: boolean): void =>
    void turn.submit(async () => {
      await put(`${SUBSCRIPTIONS}/${id}`, { is_active }, { tenant });
      await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
    });
  return (
    <>
      <div className="page-head">
        <h1 className="webhook-title">{hostOf(url)}</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith(SUBSCRIPTIONS)} />
          <Button
            busy={turn.busy}
            icon={isActive ? 'pause' : 'play'}
            disabledReason={block}
            onClick={() => setActive(!isActive)}
          >
            {isActive ? 'Switch off' : 'Switch on'}
          </Button>
          <Button
            kind="primary"
            icon="send"
            busy={test.busy}
            disabledReason={block ?? (isActive ? null : 'It is switched off')}
            onClick={sendTest}
          >
            Send test
          </Button>
        </div>
      </div>
      <div className="row">
        <SubscriptionState state={health.state} isBroken={reason != null} />
        <span className="dim">{sentBy(subscription)}</span>
      </div>
      {(test.failure ?? turn.failure) !== null && <ErrorPanel error={test.failure ?? turn.failure} />}
      <HealthNotice
        subscription={subscription}
        isTurning={turn.busy}
        block={block}
        onActivate={() => setActive(true)}
      />
      <HealthFigures subscription={subscription} />
      <Tabs
        label="Subscription"
        tabs={[
          {
            key: 'deliveries',
            label: 'Deliveries',
            content: () => <Deliveries tenant={tenant} subscription={subscription} block={block} />,
          },
          {
            key: 'settings',
            label: 'Settings',
            content: () => (
              <div className="stack webhook-parts">
                <Settings key={subscription.updated_at} tenant={tenant} subscription={subscription} block={block} />
                <Secret tenant={tenant} subscription={subscription} block={block} />
                <div>
                  <Button kind="danger" icon="trash-2" disabledReason={block} onClick={() => end(true)}>
                    Delete
                  </Button>
                </div>
              </div>
            ),
          },
          {
            key: 'receiver',
            label: 'Receiver',
            content: () => (
              <section className="stack" aria-labelledby="webhook-code">
                <h2 id="webhook-code">A receiver</h2>
                <p className="dim">
                  It verifies the signature with the subscription's secret, and handles each event once. It runs on Node
                  and Bun, or with Python or Go.
                </p>
                <ReceiverCode />
              </section>
            ),
          },
        ]}
      />
      {isEnding && (
        <Confirm
          title={`Delete the subscription to ${hostOf(url)}?`}
          onClose={() => end(false)}
          onConfirm={async () => {
            await del(`${SUBSCRIPTIONS}/${id}`, { tenant });
            // Out of the list before the page of all is shown, which would ask for its health.
            queryClient.setQueryData(subscriptionsQuery(tenant).queryKey, (all) => all?.filter((one) => one.id !== id));
            go(`/app/t/${tenant}/webhooks`, { replace: true });
          }}
        >
          Nothing more is sent to it. Its deliveries are deleted too, including waiting ones.
        </Confirm>
      )}
    </>
  );
}

/** Host and path, as in "crm.example/hook". */
function hostOf(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return host + (pathname === '/' ? '' : pathname);
  } catch {
    return url;
  }
}
