// "Replay": deliveries since a time are sent again, those that have failed or all; says how many.
import { useState } from 'react';
import { post } from '../../api/call.ts';
import { awaitDeliveries, SUBSCRIPTIONS } from '../../api/webhooks.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Select, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { counted } from '../../parts/value.ts';

const DAY_MS = 86_400_000;

interface Props {
  tenant: string;
  id: string;
  onClose: () => void;
}

export function Replay({ tenant, id, onClose }: Props) {
  const [since, setSince] = useState(() => localTime(Date.now() - DAY_MS));
  const [status, setStatus] = useState('failed');
  const [queued, setQueued] = useState<number | null>(null);
  const start = async (): Promise<void> => {
    const at = new Date(since);
    const from = Number.isNaN(at.getTime()) ? since : at.toISOString();
    const answer = await post<{ queued: number }>(`${SUBSCRIPTIONS}/${id}/replay`, { from, status }, { tenant });
    setQueued(answer.queued);
    await awaitDeliveries(tenant, id);
  };
  if (queued !== null) {
    const what = status === 'failed' ? 'No delivery has failed since then.' : 'Nothing was sent since then.';
    return (
      <Dialog
        title="Replay"
        onClose={onClose}
        actions={
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        }
      >
        <p role="status">
          {queued === 0
            ? what
            : `${counted(queued, 'delivery is', 'deliveries are')} sent again, in order and with the same event ids. New changes go first.`}
        </p>
      </Dialog>
    );
  }
  return (
    <FormDialog
      title="Replay"
      action="Send again"
      refusal="Nothing is sent again."
      paths={['from', 'status']}
      save={start}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="Changes since"
            type="datetime-local"
            hint="In your own time zone. Deliveries are kept for as long as events are."
            value={since}
            error={problems.from}
            onChange={({ target }) => setSince(target.value)}
          />
          <Select
            label="Which"
            value={status}
            error={problems.status}
            onChange={({ target }) => setStatus(target.value)}
          >
            <option value="failed">those that have failed</option>
            <option value="all">all, also those that were delivered</option>
          </Select>
        </>
      )}
    </FormDialog>
  );
}

/** As a field for local times holds it, to the minute. */
function localTime(ms: number): string {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
