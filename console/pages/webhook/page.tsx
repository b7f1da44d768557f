// One webhook subscription: what it sends where, whether it gets through, its deliveries, and the code of a receiver.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { del, post, put } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import {
  answerOf,
  awaitDeliveries,
  type Delivery,
  deliveriesQuery,
  isFailing,
  SUBSCRIPTIONS,
  type Subscription,
  stateOf,
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
import { Empty, Notice, Skeleton } from '../../parts/states.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { SubscriptionState } from '../../parts/subscription-state.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, counted, time } from '../../parts/value.ts';
import { Address } from './address.tsx';
import { Deliveries } from './deliveries.tsx';

const SHOWN = 100;

export default function Webhook() {
  usePageTitle('Webhook');
  const { tenant, subscription: id } = useParams();
  const { data, error, refetch } = useQuery(subscriptionsQuery(tenant));
  const subscription = data?.find((one) => one.id === id);
  return (
    <div className="page">
      {error !== null && <ErrorPanel title="Could not load the subscription." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && subscription === undefined && (
        <>
          <h1>Webhook</h1>
          <Empty icon="webhook">There is no subscription with this id. It may have been deleted.</Empty>
        </>
      )}
      {subscription !== undefined && <Loaded tenant={tenant} subscription={subscription} />}
    </div>
  );
}

function Loaded({ tenant, subscription }: { tenant: string; subscription: Subscription }) {
  const { id, url, entity_name: entity, event_types: types, is_active: isActive } = subscription;
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(deliveriesQuery(tenant, id, SHOWN));
  const [isEnding, end] = useState(false);
  const test = useSubmit();
  const turn = useSubmit();
  const state = stateOf(subscription, data);
  const sendTest = (): void =>
    void test.submit(async () => {
      await post(`${SUBSCRIPTIONS}/${id}/test`, undefined, { tenant });
      await awaitDeliveries(tenant, id);
      saySuccess({
        title: 'A test event was sent.',
        description: 'See the result under Deliveries.',
        kind: 'test',
      });
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
        <SubscriptionState state={state} />
        <span className="dim">
          {types.map((type) => type.replace('record.', '')).join(', ')} of {entity}
        </span>
      </div>
      {(test.failure ?? turn.failure) !== null && <ErrorPanel error={test.failure ?? turn.failure} />}
      {state === 'failing' && data !== undefined && <Failing url={url} deliveries={data} />}
      {state === 'quota' && (
        <Notice tone="warn">
          Today's quota of deliveries is used up. Further deliveries wait until the next UTC day.
        </Notice>
      )}
      {state === 'off' && <Notice>Switched off. Its deliveries wait until it is switched on.</Notice>}
      <Address key={subscription.updated_at} tenant={tenant} subscription={subscription} block={block} />
      {error !== null && <ErrorPanel title="Could not load the deliveries." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && <Deliveries tenant={tenant} id={id} deliveries={data} most={SHOWN} block={block} />}
      <section className="stack" aria-labelledby="webhook-code">
        <h2 id="webhook-code">A receiver</h2>
        <p className="dim">It verifies the signature with the subscription's secret, and handles each event once.</p>
        <ReceiverCode />
      </section>
      <div>
        <Button kind="danger" icon="trash-2" disabledReason={block} onClick={() => end(true)}>
          Delete
        </Button>
      </div>
      {isEnding && (
        <Confirm
          title={`Delete the subscription to ${hostOf(url)}?`}
          onClose={() => end(false)}
          onConfirm={async () => {
            await del(`${SUBSCRIPTIONS}/${id}`, { tenant });
            // Out of the list before the page of all is shown, which would ask for its deliveries.
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

function Failing({ url, deliveries }: { url: string; deliveries: readonly Delivery[] }) {
  const failing = deliveries.filter(isFailing);
  const first = failing.at(-1);
  const waiting = deliveries.filter(({ status }) => status === 'pending');
  const next = waiting.flatMap(({ next_attempt_at: at }) => (at === null ? [] : [at])).sort()[0];
  if (first === undefined) return null;
  return (
    <Notice tone="bad">
      {hostOf(url)} has failed since {time(first.created_at)}.{' '}
      {counted(waiting.length, 'delivery waits', 'deliveries wait')}
      {next === undefined ? '' : `, the next try is ${Date.parse(next) - Date.now() < 10_000 ? 'due' : ago(next)}`}. It
      said: {answerOf(failing[0] as Delivery)}.
    </Notice>
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
