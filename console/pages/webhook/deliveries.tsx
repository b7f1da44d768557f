// The deliveries of a subscription, newest first, a page at a time: which got through, which wait, what the receiver said.
// Chosen ones are sent again; one can be looked at beside the list. What is shown stands in the link.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { post } from '../../api/call.ts';
import {
  answerOf,
  awaitDeliveries,
  type Delivery as DeliveryRow,
  deliveriesQuery,
  EVENT_TYPES,
  isFailing,
  type SubscriptionDetail,
} from '../../api/webhooks.ts';
import { useRouterSearchText, useUrlState } from '../../app/router.tsx';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select } from '../../parts/field.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { type Column, Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, counted, exactTime } from '../../parts/value.ts';
import { Delivery } from './delivery.tsx';
import { Replay } from './replay.tsx';
import { DeliveryStatus } from './status.tsx';

const PAGE = 50;

interface Props {
  tenant: string;
  subscription: SubscriptionDetail;
  block: string | null;
}

export function Deliveries({ tenant, subscription, block }: Props) {
  const { id, is_active: isActive } = subscription;
  const [{ status, event, before, delivery }, set] = useUrlState({ status: '', event: '', before: '', delivery: '' });
  const search = useRouterSearchText();
  const { data, error, refetch } = useQuery(
    deliveriesQuery(tenant, id, PAGE + 1, {
      ...(status && { status }),
      ...(event && { event }),
      ...(before && { before }),
    }),
  );
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const [isReplaying, replay] = useState(false);
  const { busy, failure, submit } = useSubmit();
  const rows = data?.slice(0, PAGE) ?? [];
  const picked = rows.filter((row) => chosen.has(row.id));
  const redeliver = (ids: readonly string[]): void =>
    void submit(async () => {
      try {
        // One after the other: a receiver that has just been mended is not flooded.
        for (const one of ids) await post(`/api/webhooks/deliveries/${one}/redeliver`, undefined, { tenant });
        saySuccess({ title: `${counted(ids.length, 'delivery', 'deliveries')} sent again.`, kind: 'redelivered' });
        choose(new Set());
      } finally {
        await awaitDeliveries(tenant, id);
      }
    });
  const toggle = (row: DeliveryRow): void => {
    const next = new Set(chosen);
    if (!next.delete(row.id)) next.add(row.id);
    choose(next);
  };
  const hrefOf = (row: DeliveryRow): string => {
    const query = new URLSearchParams(search);
    query.set('delivery', row.id);
    return `/app/t/${tenant}/webhooks/${id}?${query}`;
  };
  const isNarrowed = status !== '' || event !== '' || before !== '';
  return (
    <section className="stack" aria-labelledby="webhook-deliveries">
      <div className="row spread">
        <h2 id="webhook-deliveries">Deliveries</h2>
        <Button
          icon="history"
          disabledReason={block ?? (isActive ? null : 'It is switched off')}
          onClick={() => replay(true)}
        >
          Replay
        </Button>
      </div>
      <div className="row webhook-tools">
        <Select label="Status" value={status} onChange={({ target }) => set({ status: target.value, before: '' })}>
          <option value="">all</option>
          <option>pending</option>
          <option>delivered</option>
          <option>failed</option>
        </Select>
        <Select label="Event" value={event} onChange={({ target }) => set({ event: target.value, before: '' })}>
          <option value="">all</option>
          {EVENT_TYPES.map((type) => (
            <option key={type}>{type}</option>
          ))}
        </Select>
        {picked.length > 0 && (
          <Button
            busy={busy}
            icon="refresh-cw"
            disabledReason={block}
            onClick={() => redeliver(picked.map((row) => row.id))}
          >
            Redeliver {picked.length} selected
          </Button>
        )}
      </div>
      {failure !== null && <ErrorPanel title="Not all were sent again." error={failure} />}
      {error !== null && <ErrorPanel title="Could not load the deliveries." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon="send">
          {isNarrowed
            ? 'No such delivery. Deliveries are kept for as long as events are.'
            : 'Nothing was sent yet. “Send test” posts an example.'}
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          caption="Deliveries, newest first"
          rows={rows}
          keyOf={(row) => row.id}
          href={hrefOf}
          columns={columnsOf(chosen, toggle)}
          actions={(row) => (
            <Button
              busy={busy && picked.length === 0}
              disabledReason={block}
              aria-label={`Redeliver ${row.event_id}`}
              onClick={() => redeliver([row.id])}
            >
              Redeliver
            </Button>
          )}
        />
      )}
      <div className="row">
        {before !== '' && <Button onClick={() => set({ before: '' })}>Newest</Button>}
        {data !== undefined && data.length > PAGE && (
          <Button onClick={() => set({ before: rows.at(-1)?.id ?? '' })}>Older</Button>
        )}
      </div>
      {delivery !== '' && (
        <Delivery
          key={delivery}
          tenant={tenant}
          subscription={id}
          id={delivery}
          isBusy={busy}
          block={block}
          onRedeliver={() => redeliver([delivery])}
          onClose={() => set({ delivery: '' })}
        />
      )}
      {isReplaying && <Replay tenant={tenant} id={id} onClose={() => replay(false)} />}
    </section>
  );
}

function columnsOf(chosen: ReadonlySet<string>, toggle: (row: DeliveryRow) => void): Column<DeliveryRow>[] {
  return [
    {
      key: 'time',
      header: 'time',
      cell: ({ created_at: at }) => (
        <span className="webhook-time" title={exactTime(at)}>
          {ago(at)}
        </span>
      ),
    },
    { key: 'event', header: 'event', cell: ({ event }) => event.replace('record.', '') },
    { key: 'status', header: 'status', cell: (row) => <DeliveryStatus of={row} /> },
    {
      key: 'attempts',
      header: 'tries',
      align: 'right',
      isMinor: true,
      cell: ({ attempt_count: attempts }) => attempts,
    },
    {
      key: 'said',
      header: 'answer',
      isMinor: true,
      cell: (row) => (
        <span className="webhook-said">{isFailing(row) || row.http_status !== null ? answerOf(row) : '—'}</span>
      ),
    },
    {
      key: 'next',
      header: 'next try',
      isMinor: true,
      cell: ({ next_attempt_at: next }) =>
        next === null ? (
          <span className="dim">—</span>
        ) : (
          <span className="webhook-time" title={exactTime(next)}>
            {Date.parse(next) <= Date.now() ? 'due' : ago(next)}
          </span>
        ),
    },
    {
      key: 'select',
      header: 'select',
      isMinor: true,
      cell: (row) => (
        <input
          type="checkbox"
          className="webhook-select"
          aria-label={`Select ${row.event_id}`}
          checked={chosen.has(row.id)}
          onChange={() => toggle(row)}
        />
      ),
    },
  ];
}
