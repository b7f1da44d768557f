// Where the person is signed in. One session ends by "End", all by "Sign out everywhere".
import { useState } from 'react';
import { del, post } from '../../api/call.ts';
import { statusOf } from '../../api/errors.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { forget } from '../../api/session.ts';
import { useWriteBlock } from '../../app/write-block.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel, sentenceOf } from '../../parts/error-panel.tsx';
import { Notice, Skeleton } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { sayError, saySuccess } from '../../parts/toast.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import type { OwnSession } from './queries.ts';

interface Props {
  tenant: string;
  data: OwnSession[] | undefined;
  error: Error | null;
  refetch: () => unknown;
}

export function Sessions({ tenant, data, error, refetch }: Props) {
  const block = useWriteBlock();
  const [isLeaving, leave] = useState(false);
  const end = ({ id }: OwnSession): void => {
    del(`/api/auth/sessions/${id}`, { tenant })
      .then(() => queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'sessions') }))
      .then(() => saySuccess({ title: 'The session has ended.' }))
      .catch((cause: unknown) => sayError({ title: sentenceOf(cause) }));
  };
  return (
    <section className="stack" aria-labelledby="account-sessions">
      <div className="row spread">
        <h2 id="account-sessions">Sessions</h2>
        {data !== undefined && (
          <Button icon="log-out" disabledReason={block} onClick={() => leave(true)}>
            Sign out everywhere
          </Button>
        )}
      </div>
      {error !== null &&
        (statusOf(error) === 404 ? (
          <Notice>This service cannot list sessions. Setting a new password ends them all.</Notice>
        ) : (
          <ErrorPanel title="Could not load your sessions." error={error} onRetry={refetch} />
        ))}
      {data === undefined && error === null && <Skeleton lines={3} />}
      {data !== undefined && (
        <Table
          caption="Your sessions"
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { key: 'agent', header: 'browser', cell: ({ userAgent }) => browserOf(userAgent) },
            { key: 'address', header: 'address', cell: ({ address }) => address, isMinor: true },
            { key: 'since', header: 'signed in', cell: ({ createdAt }) => <When at={createdAt} />, isMinor: true },
            { key: 'used', header: 'last used', cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
          ]}
          actions={(one) =>
            one.current ? (
              <Badge tone="ok">this session</Badge>
            ) : (
              <Button
                aria-label={`End the session in ${browserOf(one.userAgent)}, ${one.address}`}
                disabledReason={block}
                onClick={() => end(one)}
              >
                End
              </Button>
            )
          }
        />
      )}
      {isLeaving && (
        <Confirm
          title="Sign out everywhere?"
          label="Sign out everywhere"
          onClose={() => leave(false)}
          onConfirm={async () => {
            await post('/api/auth/tenant/logout', { all: true }, { tenant });
            forget();
          }}
        >
          All your sessions end within a second, including this one. Programs that use your developer tokens keep
          working.
        </Confirm>
      )}
    </section>
  );
}

function When({ at }: { at: string }) {
  return <span title={exactTime(at)}>{ago(at)}</span>;
}

/** "Firefox on Linux"; of a program its own first word. */
export function browserOf(agent: string | null): string {
  if (agent === null || agent === '') return 'unknown';
  const browsers = [
    [/Edg\//, 'Edge'],
    [/Firefox\//, 'Firefox'],
    [/Chrome\//, 'Chrome'],
    [/Safari\//, 'Safari'],
  ] as const;
  const systems = [
    [/Android/, 'Android'],
    [/iPhone|iPad/, 'iOS'],
    [/Windows/, 'Windows'],
    [/Mac OS X/, 'macOS'],
    [/Linux/, 'Linux'],
  ] as const;
  const browser = browsers.find(([pattern]) => pattern.test(agent))?.[1];
  const system = systems.find(([pattern]) => pattern.test(agent))?.[1];
  if (browser === undefined) return agent.split(/[\s/]/)[0]?.slice(0, 40) ?? 'unknown';
  return system === undefined ? browser : `${browser} on ${system}`;
}
