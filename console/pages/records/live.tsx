// What the grid says about changes of others: whether it hears of them, and what came that it does not show by itself.
import { useEffect, useState, useSyncExternalStore } from 'react';
import { online } from '../../api/call.ts';
import { useStore } from '../../api/store.ts';
import type { Live } from '../../api/use-changes.ts';
import type { LiveRows } from '../../grid/live-rows.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { counted } from '../../parts/value.ts';

/** "12 new", "3 rows moved": read when the person wants it, so that nothing moves by itself. */
export function News({ live, onRefresh }: { live: LiveRows; onRefresh: () => void }) {
  useSyncExternalStore(live.subscribe, live.version);
  useSyncExternalStore(live.rows.subscribe, live.rows.version);
  const { newCount, staleCount } = live;
  const text = [
    newCount > 0 ? `${newCount.toLocaleString('en')} new` : '',
    staleCount > 0 ? `${counted(staleCount, 'row')} moved or gone` : '',
  ]
    .filter(Boolean)
    .join(', ');
  return (
    <span role="status" className="records-news">
      {text !== '' && (
        <Button icon="refresh-cw" onClick={onRefresh}>
          {text}
        </Button>
      )}
    </span>
  );
}

/** Of an entity of which a role sees only some rows no events come, and nothing says that it is one. */
const QUIET_MS = 8_000;
/** The new ones are counted every so many times. */
const COUNTED_EVERY = 5;

/** For roles that may be restricted to some rows: reads what is shown again and again, so that "live" is true. */
export function useQuietChanges(live: LiveRows, isWanted: boolean): void {
  useEffect(() => {
    if (!isWanted) return;
    let turn = 0;
    const timer = setInterval(() => {
      if (document.hidden) return;
      turn += 1;
      live.catchUp(turn % COUNTED_EVERY === 0);
    }, QUIET_MS);
    return () => clearInterval(timer);
  }, [live, isWanted]);
}

export function LiveState({ live: { state, retryAt, retry }, isQuiet }: { live: Live; isQuiet: boolean }) {
  const seconds = useSecondsUntil(retryAt);
  const isOnline = useStore(online);
  return (
    <span role="status" className="row records-live">
      {state === 'live' && !isOnline && <Badge tone="warn">not live</Badge>}
      {state === 'live' && isOnline && (
        <span
          title={
            isQuiet
              ? `Changes show as they come; where your role sees only some rows, within ${QUIET_MS / 1_000} seconds.`
              : 'Changes show as they come.'
          }
        >
          <Badge tone="ok">live</Badge>
        </span>
      )}
      {state === 'connecting' && <Badge>connecting</Badge>}
      {state === 'paused' && <Badge>not live: paused</Badge>}
      {state === 'unavailable' && (
        <span title="This session has no live changes. Reload the list to see them.">
          <Badge>not live</Badge>
        </span>
      )}
      {state === 'retrying' && (
        <>
          <Badge tone="warn">not live: connecting again{seconds > 0 ? ` in ${seconds} s` : ''}</Badge>
          <Button kind="quiet" onClick={retry}>
            Now
          </Button>
        </>
      )}
    </span>
  );
}

function useSecondsUntil(at: number | null): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (at === null) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [at]);
  return at === null ? 0 : Math.max(0, Math.ceil((at - now) / 1_000));
}
