// A list of keys with prefix, last use and expiry; "New key", and "Delete" with what it stops.
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { type Key, listQuery } from '../../access/credentials.ts';
import { del } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, exactTime, time } from '../../parts/value.ts';

interface Props<T extends Key> {
  tenant: string;
  /** The path of the list. */
  path: string;
  caption: string;
  /** What these keys are for. */
  about: string;
  empty: string;
  more?: readonly Column<T>[];
  /** The dialog of "New key". */
  form: (onClose: () => void) => ReactNode;
}

export function KeyList<T extends Key>({ tenant, path, caption, about, empty, more = [], form }: Props<T>) {
  const block = useWriteBlock();
  const { data, error, refetch } = useQuery(listQuery<T>(tenant, path));
  const [isMaking, make] = useState(false);
  const [revoking, revoke] = useState<T | null>(null);
  return (
    <div className="stack keys">
      <div className="row spread">
        <p className="dim grow">{about}</p>
        <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={block} onClick={() => make(true)}>
          New key
        </Button>
      </div>
      {error !== null && <ErrorPanel title="Could not load the keys." error={error} onRetry={refetch} />}
      {data === undefined && error === null && <Skeleton lines={4} />}
      {data?.length === 0 && <Empty icon="key-round">{empty}</Empty>}
      {data !== undefined && data.length > 0 && (
        <Table
          caption={caption}
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { key: 'label', header: 'label', cell: ({ label }) => label ?? '—' },
            { key: 'prefix', header: 'prefix', isMinor: true, cell: ({ keyPrefix }) => <code>{keyPrefix}…</code> },
            ...more,
            { key: 'used', header: 'last use', cell: (key) => <LastUse {...key} /> },
            { key: 'expires', header: 'expires', cell: ({ expiresAt }) => <Expiry at={expiresAt} /> },
          ]}
          actions={(key) => (
            <Button aria-label={`Delete ${nameOf(key)}`} disabledReason={block} onClick={() => revoke(key)}>
              Delete
            </Button>
          )}
        />
      )}
      {isMaking && form(() => make(false))}
      {revoking !== null && (
        <Confirm
          title={`Delete the key ${nameOf(revoking)}?`}
          onClose={() => revoke(null)}
          onConfirm={async () => {
            await del(`${path}/${revoking.id}`, { tenant });
            await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'credentials') });
            saySuccess({ title: `The key ${nameOf(revoking)} was deleted.` });
          }}
        >
          {consequenceOf(revoking)}
        </Confirm>
      )}
    </div>
  );
}

const nameOf = ({ label, keyPrefix }: Key): string => label ?? keyPrefix;

function consequenceOf({ lastUsedAt }: Key): string {
  const use = lastUsedAt === null ? 'It has never been used.' : `It was last used ${ago(lastUsedAt)}.`;
  return `${use} Programs that use it are refused within a second, and its open streams end. This cannot be undone.`;
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const UNUSED_DAYS = 90;

export function LastUse({ lastUsedAt, createdAt }: Pick<Key, 'lastUsedAt' | 'createdAt'>) {
  if (Date.now() - Date.parse(lastUsedAt ?? createdAt) > UNUSED_DAYS * DAY_MS) return <Badge>unused</Badge>;
  if (lastUsedAt === null) return <span className="dim">never</span>;
  return <span title={exactTime(lastUsedAt)}>{ago(lastUsedAt)}</span>;
}

export function Expiry({ at }: { at: string | null }) {
  if (at === null) return <span className="dim">never</span>;
  const left = Date.parse(at) - Date.now();
  if (left <= 0) return <Badge tone="bad">expired</Badge>;
  if (left < SOON_DAYS * DAY_MS) return <Badge tone="warn">{ago(at)}</Badge>;
  return <span title={exactTime(at)}>{time(at)}</span>;
}
