// Live: the events of the tenant as they come. "Pause" holds the list still while the stream goes on, "Resume" shows
// what came meanwhile. Filters and the search narrow what is shown, not what is kept.
import { useQuery } from '@tanstack/react-query';
import { useDeferredValue, useEffect, useMemo, useState } from 'react';
import { seenAs } from '../../api/call.ts';
import { entitiesQuery } from '../../api/queries.ts';
import { useStore } from '../../api/store.ts';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { CodeBlock } from '../../parts/code-block.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select } from '../../parts/field.tsx';
import { Peek } from '../../parts/peek.tsx';
import { Empty, Notice } from '../../parts/states.tsx';
import { counted } from '../../parts/value.ts';
import { ConnectionState } from './connection-state.tsx';
import { EventList } from './event-list.tsx';
import { EVENT_TYPES, type LiveEvent, LiveStream } from './stream.ts';

export default function Live() {
  usePageTitle('Live');
  const { tenant } = useParams();
  const block = useWriteBlock();
  const isOther = useStore(seenAs) !== null;
  const stream = useMemo(() => new LiveStream(tenant), [tenant]);
  // A ticket is a POST, which is refused as another role. The stream itself handles a lost connection. On the way to
  // another page this one is rendered once more, without its tenant.
  useEffect(() => {
    if (isOther || tenant === '') return;
    void stream.open();
    return () => stream.close();
  }, [stream, isOther, tenant]);
  return (
    <div className="page live">
      {isOther ? (
        <Notice>{block} The stream is paused until then.</Notice>
      ) : (
        <Shown key={tenant} tenant={tenant} stream={stream} />
      )}
    </div>
  );
}

function Shown({ tenant, stream }: { tenant: string; stream: LiveStream }) {
  const [state, set] = useUrlState({ entity: '', event: '', search: '' });
  const all = useStore(stream.events);
  const connection = useStore(stream.connection);
  const [paused, pause] = useState<readonly LiveEvent[] | null>(null);
  const [opened, open] = useState<LiveEvent | null>(null);
  const search = useDeferredValue(state.search.trim().toLowerCase());
  const held = paused ?? all;
  const shown = useMemo(
    () =>
      held.filter(
        ({ entity, type, text }) =>
          (state.entity === '' || entity === state.entity) &&
          (state.event === '' || type === state.event) &&
          (search === '' || text.toLowerCase().includes(search)),
      ),
    [held, state.entity, state.event, search],
  );
  const fresh = paused === null ? 0 : (all.at(-1)?.at ?? 0) - (paused.at(-1)?.at ?? 0);
  const count = all.at(-1)?.at ?? 0;
  const isNarrowed = state.entity !== '' || state.event !== '' || search !== '';
  return (
    <>
      <div className="page-head">
        <div className="row">
          <h1>Live</h1>
          <ConnectionState connection={connection} onRetry={() => void stream.open()} />
          <span className="caption num">{counted(count, 'event')}</span>
        </div>
        <div className="row">
          <CopyAsCurl of={({ path }) => path.endsWith('/events/tickets')} />
          {paused !== null && <span role="status" className="caption num">{`${fresh.toLocaleString('en')} new`}</span>}
          <Button
            kind="primary"
            icon={paused === null ? 'pause' : 'play'}
            onClick={() => pause(paused === null ? all : null)}
          >
            {paused === null ? 'Pause' : 'Resume'}
          </Button>
        </div>
      </div>
      {connection.state === 'refused' && (
        <ErrorPanel title="The stream was refused." error={connection.error} onRetry={() => stream.open()} />
      )}
      <Narrowing tenant={tenant} state={state} set={set} />
      {shown.length === 0 ? (
        <Empty icon="radio">
          {held.length > 0 && isNarrowed
            ? `None of the ${counted(held.length, 'event')} matches.`
            : connection.state === 'connected'
              ? 'Connected. Waiting for the first change.'
              : 'Events appear here as they happen.'}
        </Empty>
      ) : (
        <EventList events={shown} isFollowing={paused === null} opened={opened} onOpen={open} />
      )}
      {count > all.length && <p className="caption">The last {counted(all.length, 'event')} are kept.</p>}
      {opened !== null && (
        <Peek title={opened.type} onClose={() => open(null)}>
          <CodeBlock label={opened.id} text={JSON.stringify(JSON.parse(opened.text), null, 2)} />
        </Peek>
      )}
    </>
  );
}

interface State {
  entity: string;
  event: string;
  search: string;
}

interface NarrowingProps {
  tenant: string;
  state: State;
  set: (change: Partial<State>, options?: { replace?: boolean }) => void;
}

function Narrowing({ tenant, state, set }: NarrowingProps) {
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  return (
    <div className="live-tools">
      <Select label="Entity" value={state.entity} onChange={({ target }) => set({ entity: target.value })}>
        <option value="">all</option>
        {entities.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </Select>
      <Select label="Event" value={state.event} onChange={({ target }) => set({ event: target.value })}>
        <option value="">all</option>
        {EVENT_TYPES.map((type) => (
          <option key={type}>{type}</option>
        ))}
      </Select>
      <label className="field grow">
        <span>Search</span>
        <input
          className="input"
          type="search"
          placeholder="Text in the event"
          value={state.search}
          onChange={({ target }) => set({ search: target.value }, { replace: true })}
          data-hotkey="/"
        />
      </label>
    </div>
  );
}
