// Follows the tenant's events, or the changes of an entity, while a component is mounted; the component hands over what to
// do with them.
import { useEffect, useRef, useState } from 'react';
import { seenAs } from './call.ts';
import { type Change, Events, type LiveState, type Wanted } from './changes.ts';
import { useStore } from './store.ts';

/** In place of an entity's name. */
export const EVERY_ENTITY = '';

export interface Live {
  state: LiveState;
  /** When the next try is made, in milliseconds since 1970; null unless the connection is lost. */
  retryAt: number | null;
  retry: () => void;
}

interface EventHandlers {
  onEvent: (type: string, data: string) => void;
  onOpen?: (isAgain: boolean) => void;
}

export function useEvents(tenant: string, wanted: Wanted, handlers: EventHandlers): Live {
  const [live, setLive] = useState<Omit<Live, 'retry'>>({ state: 'connecting', retryAt: null });
  const role = useStore(seenAs);
  const latest = useRef(handlers);
  const stream = useRef<Events | null>(null);
  const key = JSON.stringify(wanted);
  useEffect(() => {
    latest.current = handlers;
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: seeing the tenant as a role ends the stream
  useEffect(() => {
    const events = new Events(tenant, JSON.parse(key) as Wanted, {
      onEvent: (type, data) => latest.current.onEvent(type, data),
      onOpen: (isAgain) => latest.current.onOpen?.(isAgain),
      onState: (state, retryAt) => setLive({ state, retryAt }),
    });
    stream.current = events;
    events.start();
    return () => events.stop();
  }, [tenant, key, role]);
  return { ...live, retry: () => stream.current?.retry() };
}

interface ChangeHandlers {
  onChange: (change: Change) => void;
  onOpen: (isAgain: boolean) => void;
}

const RECORD_EVENTS: Readonly<Record<string, Change['type']>> = {
  'record.created': 'created',
  'record.updated': 'updated',
  'record.deleted': 'deleted',
};

export function useChanges(tenant: string, entity: string, { onChange, onOpen }: ChangeHandlers): Live {
  return useEvents(
    tenant,
    { ...(entity === EVERY_ENTITY ? {} : { entities: [entity] }), events: Object.keys(RECORD_EVENTS) },
    {
      onOpen,
      onEvent: (event, text) => {
        const { entity: changed, record_id: id } = JSON.parse(text) as { entity: string; record_id: string };
        const type = RECORD_EVENTS[event];
        if (type !== undefined) onChange({ type, entity: changed, id });
      },
    },
  );
}
