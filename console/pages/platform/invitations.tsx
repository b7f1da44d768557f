// The invitations of all tenants and the platform codes, each of which makes a new tenant when it is accepted.

import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Page } from '../../api/answers.ts';
import { get, post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { Link, useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { Empty, Notice, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { ago, exactTime } from '../../parts/value.ts';

const PATH = '/api/admin/platform/invitations';
const STATUSES = ['pending', 'accepted', 'expired', 'revoked'] as const;
const TONES: Record<(typeof STATUSES)[number], Tone> = {
  pending: 'warn',
  accepted: 'ok',
  expired: 'neutral',
  revoked: 'neutral',
};

interface Invitation {
  id: string;
  email: string | null;
  status: (typeof STATUSES)[number];
  kind: 'member' | 'platform';
  tenantSlug: string | null;
  createdAt: string;
  expiresAt: string;
}

export function Invitations() {
  const [{ status }, set] = useUrlState({ status: '' });
  const [isMaking, make] = useState(false);
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(null, 'invitations', status),
    queryFn: ({ signal }) => get<Page<Invitation>>(PATH, { signal, query: { status, limit: 100 } }),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <div className="page-head">
        <h1>Invitations</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith(PATH)} />
          <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
            New platform code
          </Button>
        </div>
      </div>
      <div className="platform-narrow">
        <Select label="Status" value={status} onChange={({ target }) => set({ status: target.value })}>
          <option value="">all</option>
          {STATUSES.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </Select>
      </div>
      {error !== null && <ErrorPanel title="Could not load the invitations." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data?.items.length === 0 && (
        <Empty icon="mail">
          {status === ''
            ? 'No invitations yet. A platform code lets someone create their own tenant.'
            : `No invitation is ${status}.`}
        </Empty>
      )}
      {data !== undefined && data.items.length > 0 && (
        <Table
          caption="Invitations"
          rows={data.items}
          keyOf={({ id }) => id}
          columns={[
            { key: 'email', header: 'for', cell: ({ email }) => email ?? 'anyone with the link' },
            {
              key: 'kind',
              header: 'to',
              cell: ({ kind, tenantSlug }) =>
                tenantSlug === null ? (
                  'a new tenant'
                ) : (
                  <Link href={`/app/t/${tenantSlug}`}>{kind === 'platform' ? `${tenantSlug} (new)` : tenantSlug}</Link>
                ),
            },
            { key: 'status', header: 'status', cell: ({ status: is }) => <Badge tone={TONES[is]}>{is}</Badge> },
            {
              key: 'expires',
              header: 'expires',
              cell: ({ expiresAt }) => <span title={exactTime(expiresAt)}>{ago(expiresAt)}</span>,
              isMinor: true,
            },
          ]}
        />
      )}
      {data !== undefined && (data.total ?? 0) > data.items.length && (
        <p className="caption">
          The newest {data.items.length} of {data.total?.toLocaleString('en')}.
        </p>
      )}
      {isMaking && <NewCode onClose={() => make(false)} />}
    </>
  );
}

function NewCode({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [days, setDays] = useState('7');
  const [made, setMade] = useState<{ inviteUrl: string; mailed: boolean } | null>(null);
  const save = async (): Promise<void> => {
    const body = { ...(email.trim() === '' ? {} : { email: email.trim() }), expiresInDays: Number(days) };
    setMade(await post('/api/invitations', body));
    await queryClient.invalidateQueries({ queryKey: keyOf(null, 'invitations') });
  };
  if (made !== null) {
    return (
      <SecretOnce
        title="The platform code"
        noun="link"
        value={made.inviteUrl}
        variable="TDS_INVITATION"
        onClose={onClose}
      >
        {email.trim() !== '' && !made.mailed && (
          <Notice tone="warn">
            No e-mail was sent: this service has no mail server. Pass the link on to {email.trim()} yourself.
          </Notice>
        )}
      </SecretOnce>
    );
  }
  return (
    <FormDialog
      title="New platform code"
      action="Create"
      refusal="No code was created."
      paths={['email', 'expiresInDays']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="E-mail"
            optional
            type="email"
            hint="Only this address can accept, and the link is e-mailed there."
            value={email}
            error={problems.email}
            onChange={({ target }) => setEmail(target.value)}
          />
          <TextField
            label="Days until it expires"
            type="number"
            value={days}
            error={problems.expiresInDays}
            onChange={({ target }) => setDays(target.value)}
          />
        </>
      )}
    </FormDialog>
  );
}
