// The events, newest first, of which only those in sight are in the document. While it follows, the newest stay in
// sight; scrolled down, the rows that one reads stay where they are.
import { useVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef } from 'react';
import type { LiveEvent } from './stream.ts';

const ROW = 36;

interface Props {
  /** Oldest first. */
  events: readonly LiveEvent[];
  isFollowing: boolean;
  opened: LiveEvent | null;
  onOpen: (event: LiveEvent) => void;
}

export function EventList({ events, isFollowing, opened, onOpen }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW,
    overscan: 10,
    getItemKey: (index) => events[events.length - 1 - index]?.at ?? index,
  });
  const newest = events.at(-1)?.at ?? 0;
  const before = useRef({ newest });
  useLayoutEffect(() => {
    const element = frame.current;
    const added = events.filter(({ at }) => at > before.current.newest).length;
    before.current = { newest };
    if (element !== null && isFollowing && element.scrollTop > 0 && added > 0) element.scrollTop += added * ROW;
  }, [events, newest, isFollowing]);
  return (
    <div className="live-frame" ref={frame} role="region" aria-label="Events" tabIndex={0}>
      <ul style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, key, start }) => {
          const event = events[events.length - 1 - index] as LiveEvent;
          return (
            <li
              key={key}
              aria-posinset={index + 1}
              aria-setsize={events.length}
              style={{ transform: `translateY(${start}px)` }}
            >
              <button type="button" aria-pressed={opened?.at === event.at} onClick={() => onOpen(event)}>
                <time className="num" dateTime={event.timestamp}>
                  {clock(event.timestamp)}
                </time>
                <span className={`live-type ${toneOf(event.type)}`}>{event.type.replace('record.', '')}</span>
                <span className="ellipsis">{event.entity}</span>
                <span className="ellipsis grow">{event.title}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', hour12: false });

/** "10:42:07.113" in the person's zone. */
function clock(timestamp: string): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return timestamp;
  return `${CLOCK.format(time)}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

function toneOf(type: string): string {
  if (type === 'rule.failed' || type === 'record.deleted' || type === 'message.chain_limit') return 'bad';
  if (type === 'record.created') return 'ok';
  return type === 'quota.warning' || type === 'webhook.disabled' ? 'warn' : '';
}
