// The deliveries of a subscription, newest first: which got through, which wait, what the receiver said. Chosen ones are
// sent again.
import { useState } from 'react';
import { post } from '../../api/call.ts';
import { answerOf, awaitDeliveries, type Delivery, isFailing } from '../../api/webhooks.ts';
import { useUrlState } from '../../app/router.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select } from '../../parts/field.tsx';
import { Empty } from '../../parts/states.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { type Column, Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, counted, exactTime, time } from '../../parts/value.ts';

const STATUSES = ['failing', 'pending', 'delivered', 'failed'];

interface Props {
  tenant: string;
  id: string;
  deliveries: readonly Delivery[];
  /** How many the page asked for. */
  most: number;
  block: string | null;
}

export function Deliveries({ tenant, id, deliveries, most, block }: Props) {
  const [{ status }, set] = useUrlState({ status: '' });
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const { busy, failure, submit } = useSubmit();
  const rows = deliveries.filter(
    (one) => status === '' || (status === 'failing' ? isFailing(one) : one.status === status),
  );
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
  const toggle = (row: Delivery): void => {
    const next = new Set(chosen);
    if (!next.delete(row.id)) next.add(row.id);
    choose(next);
  };
  return (
    <section className="stack" aria-labelledby="webhook-deliveries">
      <div className="row spread">
        <h2 id="webhook-deliveries">Deliveries</h2>
        <div className="row">
          <Select label="Show" value={status} onChange={({ target }) => set({ status: target.value })}>
            <option value="">all</option>
            {STATUSES.map((one) => (
              <option key={one}>{one}</option>
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
      </div>
      {failure !== null && <ErrorPanel title="Not all were sent again." error={failure} />}
      {rows.length === 0 && (
        <Empty icon="send">
          {deliveries.length === 0
            ? 'Nothing was sent yet. “Send test” posts an example.'
            : `No delivery is ${status}.`}
        </Empty>
      )}
      {rows.length > 0 && (
        <Table
          caption="Deliveries, newest first"
          rows={rows}
          keyOf={(row) => row.id}
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
      {deliveries.length >= most && <p className="caption">The newest {most} deliveries.</p>}
    </section>
  );
}

function columnsOf(chosen: ReadonlySet<string>, toggle: (row: Delivery) => void): Column<Delivery>[] {
  return [
    {
      key: 'event',
      header: 'event',
      cell: (row) => (
        <label className="webhook-event">
          <input
            type="checkbox"
            aria-label={`Select ${row.event_id}`}
            checked={chosen.has(row.id)}
            onChange={() => toggle(row)}
          />
          {row.event}
        </label>
      ),
    },
    { key: 'status', header: 'status', cell: (row) => <Status of={row} /> },
    { key: 'attempts', header: 'attempts', align: 'right', cell: ({ attempt_count: attempts }) => attempts },
    { key: 'said', header: 'the receiver said', cell: (row) => <span className="webhook-said">{answerOf(row)}</span> },
    {
      key: 'next',
      header: 'next try',
      isMinor: true,
      cell: ({ next_attempt_at: next }) =>
        next === null ? <span className="dim">—</span> : <span title={exactTime(next)}>{ago(next)}</span>,
    },
    {
      key: 'time',
      header: 'time',
      isMinor: true,
      cell: ({ created_at: at }) => <span title={exactTime(at)}>{time(at)}</span>,
    },
    {
      key: 'id',
      header: 'id',
      isMinor: true,
      cell: ({ event_id: id }) => (
        <span className="webhook-id">
          <code title={id}>{id.slice(-8)}</code>
          <CopyButton isSmall label={`Copy ${id}`} value={id} />
        </span>
      ),
    },
  ];
}

function Status({ of }: { of: Delivery }) {
  if (of.status === 'delivered') return <Badge tone="ok">delivered</Badge>;
  if (of.status === 'failed') return <Badge tone="bad">failed</Badge>;
  return isFailing(of) ? <Badge tone="warn">retrying</Badge> : <Badge>pending</Badge>;
}
