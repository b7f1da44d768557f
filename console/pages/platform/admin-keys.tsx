// Admin keys: credentials of operators' tools. The API shows them to the super-admin together with an admin key, so
// that a lost secret alone reveals none. The key that is typed here stays in the memory of this page.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ADMIN_KEY, call } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { session } from '../../api/session.ts';
import { useStore } from '../../api/store.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { PasswordField } from '../../parts/field.tsx';
import { Empty, Notice, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { ago, exactTime, time } from '../../parts/value.ts';
import { NewAdminKey } from './new-admin-key.tsx';

export const PATH = '/api/admin/platform/keys';

export interface AdminKey {
  id: string;
  name: string;
  keyPrefix: string;
  scopes: string[];
  isActive: boolean;
  expiresAt: string | null;
  lastUsedAt: string | null;
  createdAt: string;
}

interface AuditEntry {
  id: string;
  action: string;
  actorId: string | null;
  endpoint: string | null;
  ip: string | null;
  createdAt: string;
}

/** A call with the secret of the session and, when there is one, the admin key beside it. */
export async function withKey<T>(key: string, method: string, path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = key === '' ? {} : { [ADMIN_KEY]: key };
  return (await call<T>(method, path, { headers, body, is401Refusal: true })).data;
}

const listKey = () => keyOf(null, 'admin-keys');

export function AdminKeys() {
  const kind = useStore(session)?.kind;
  const [key, setKey] = useState('');
  const [typed, setTyped] = useState('');
  const [isMaking, make] = useState(false);
  const block = useWriteBlock();
  const {
    data: read,
    error,
    isFetching,
    refetch,
  } = useQuery({
    queryKey: listKey(),
    queryFn: () => withKey<AdminKey[]>(key, 'GET', PATH),
    enabled: key !== '',
    retry: false,
    gcTime: 0,
  });
  // A key that was revoked meanwhile shows nothing any more.
  const data = error === null ? read : undefined;
  const show = (event: FormEvent): void => {
    event.preventDefault();
    queryClient.removeQueries({ queryKey: listKey() });
    setKey(typed.trim());
  };
  const needsSecret = kind === 'secret' ? null : 'Sign in with the super-admin secret to manage admin keys';
  return (
    <>
      <div className="page-head">
        <h1>Admin keys</h1>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.startsWith(PATH)} />
          <Button
            kind="primary"
            icon="plus"
            data-hotkey="n"
            disabledReason={needsSecret ?? block}
            onClick={() => make(true)}
          >
            New key
          </Button>
        </div>
      </div>
      {needsSecret !== null && <Notice>{needsSecret}.</Notice>}
      {needsSecret === null && data === undefined && (
        <form className="stack platform-narrow" onSubmit={show}>
          <p>
            To list the admin keys, enter one of them as well. Your first key needs only the secret: choose “New key”.
          </p>
          <PasswordField
            label="Admin key"
            hint="Needs the scope platform:read. It is kept until you leave this page."
            autoComplete="off"
            value={typed}
            onChange={({ target }) => setTyped(target.value)}
          />
          {error !== null && <ErrorPanel title="Could not load the admin keys." error={error} />}
          <div>
            <Button
              type="submit"
              busy={isFetching}
              disabledReason={typed.trim() === '' ? 'Type an admin key first' : null}
            >
              Show keys
            </Button>
          </div>
          {isFetching && <Skeleton />}
        </form>
      )}
      {data?.length === 0 && (
        <Empty icon="key-round">No admin keys yet. Create one for a program that operates the platform.</Empty>
      )}
      {data !== undefined && data.length > 0 && (
        <Keys keys={data} adminKey={key} block={block} onChange={() => void refetch()} />
      )}
      {isMaking && (
        <NewAdminKey
          adminKey={key}
          onClose={() => make(false)}
          onMade={(value) => {
            if (key === '') setTyped(value);
            void queryClient.invalidateQueries({ queryKey: listKey() });
          }}
        />
      )}
    </>
  );
}

interface KeysProps {
  keys: readonly AdminKey[];
  adminKey: string;
  block: string | null;
  onChange: () => void;
}

function Keys({ keys, adminKey, block, onChange }: KeysProps) {
  const [ending, end] = useState<AdminKey | null>(null);
  const [audited, audit] = useState<AdminKey | null>(null);
  return (
    <>
      <Table
        caption="Admin keys"
        rows={keys}
        keyOf={({ id }) => id}
        columns={[
          { key: 'name', header: 'name', cell: ({ name }) => name },
          { key: 'prefix', header: 'prefix', cell: ({ keyPrefix }) => <code>{keyPrefix}…</code>, isMinor: true },
          { key: 'scopes', header: 'scopes', cell: ({ scopes }) => scopes.join(', '), isMinor: true },
          { key: 'status', header: 'status', cell: (key) => <State of={key} /> },
          {
            key: 'used',
            header: 'last use',
            cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : ago(lastUsedAt)),
          },
        ]}
        actions={(key) => (
          <>
            <Button icon="history" aria-label={`Audit of ${key.name}`} onClick={() => audit(key)} />
            {key.isActive && (
              <Button
                icon="trash-2"
                aria-label={`Delete ${key.name}`}
                disabledReason={block}
                onClick={() => end(key)}
              />
            )}
          </>
        )}
      />
      {audited !== null && <Audit of={audited} adminKey={adminKey} onClose={() => audit(null)} />}
      {ending !== null && (
        <Confirm
          title={`Delete the admin key ${ending.name}?`}
          onClose={() => end(null)}
          onConfirm={async () => {
            await withKey(adminKey, 'DELETE', `${PATH}/${ending.id}`);
            onChange();
          }}
        >
          Programs that use it are refused from now on. It stays in this list as revoked, with its audit.
        </Confirm>
      )}
    </>
  );
}

function State({ of: { isActive, expiresAt } }: { of: AdminKey }) {
  if (!isActive) return <Badge>revoked</Badge>;
  if (expiresAt === null) return <Badge tone="ok">active</Badge>;
  if (Date.parse(expiresAt) <= Date.now()) return <Badge tone="bad">expired</Badge>;
  return <Badge tone="ok">until {time(expiresAt)}</Badge>;
}

function Audit({ of, adminKey, onClose }: { of: AdminKey; adminKey: string; onClose: () => void }) {
  const { data, error, refetch } = useQuery({
    queryKey: [...listKey(), of.id, 'audit'],
    queryFn: () => withKey<AuditEntry[]>(adminKey, 'GET', `${PATH}/${of.id}/audit?limit=100`),
    retry: false,
    gcTime: 0,
  });
  return (
    <Dialog title={`Audit of ${of.name}`} onClose={onClose} wide>
      {error !== null && <ErrorPanel title="Could not load the audit." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && (
        <Table
          caption={`Audit of ${of.name}, newest first`}
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { key: 'action', header: 'action', cell: ({ action }) => action },
            {
              key: 'endpoint',
              header: 'call',
              cell: ({ endpoint }) => (endpoint === null ? '—' : <code>{endpoint}</code>),
            },
            { key: 'ip', header: 'address', cell: ({ ip }) => ip ?? '—', isMinor: true },
            {
              key: 'at',
              header: 'time',
              cell: ({ createdAt }) => <span title={exactTime(createdAt)}>{time(createdAt)}</span>,
            },
          ]}
        />
      )}
    </Dialog>
  );
}
