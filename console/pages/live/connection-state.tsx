// The state of the stream's connection, in words.
import { useEffect, useState } from 'react';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import type { Connection } from './stream.ts';

export function ConnectionState({ connection, onRetry }: { connection: Connection; onRetry: () => void }) {
  if (connection.state === 'connected') return <Badge tone="ok">connected</Badge>;
  if (connection.state === 'connecting') return <Badge>connecting</Badge>;
  if (connection.state === 'refused') return <Badge tone="bad">refused</Badge>;
  return (
    <span className="row">
      <Badge tone="warn">
        <Countdown to={connection.retryAt} />
      </Badge>
      <Button kind="quiet" onClick={onRetry}>
        Connect now
      </Button>
    </span>
  );
}

function Countdown({ to }: { to: number }) {
  const [now, tick] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => tick(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return `connection lost, reconnecting in ${Math.max(0, Math.ceil((to - now) / 1_000))} s`;
}
