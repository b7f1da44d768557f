// Pending invitations for their person: until when, and "Withdraw". Their links are shown right after making only.
import { useState } from 'react';
import { del } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import type { Invitation } from './queries.ts';

export function Invitations({ tenant, invitations }: { tenant: string; invitations: readonly Invitation[] }) {
  const block = useWriteBlock();
  const [withdrawing, withdraw] = useState<Invitation | null>(null);
  return (
    <section className="stack" aria-labelledby="people-invited">
      <h2 id="people-invited">Invited</h2>
      <Table
        caption="Pending invitations"
        rows={invitations}
        keyOf={({ id }) => id}
        columns={[
          { key: 'email', header: 'e-mail', cell: nameOf },
          { key: 'state', header: 'state', cell: () => <Badge tone="warn">invited</Badge>, isMinor: true },
          {
            key: 'expires',
            header: 'expires',
            cell: ({ expiresAt }) => <span title={exactTime(expiresAt)}>{ago(expiresAt)}</span>,
          },
        ]}
        actions={(invitation) => (
          <Button
            aria-label={`Withdraw the invitation of ${nameOf(invitation)}`}
            disabledReason={block}
            onClick={() => withdraw(invitation)}
          >
            Withdraw
          </Button>
        )}
      />
      {withdrawing !== null && (
        <Confirm
          title={`Withdraw the invitation of ${nameOf(withdrawing)}?`}
          onClose={() => withdraw(null)}
          onConfirm={async () => {
            await del(`/api/invitations/${withdrawing.id}`, { tenant });
            await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'invitations') });
            saySuccess({ title: 'The invitation was withdrawn.' });
          }}
        >
          Its link stops working at once. You can invite them again at any time.
        </Confirm>
      )}
    </section>
  );
}

function nameOf({ email }: Invitation): string {
  return email ?? 'anyone with the link';
}
