// Latest changes: the records changed last in the first entities, and what is deleted while one looks. The event
// stream says when to read again; however much happens, an entity is read at most once in two seconds.
import { useQueries, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { Entity, Page, Row } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import type { Change } from '../../api/changes.ts';
import { keyOf } from '../../api/queries.ts';
import { EVERY_ENTITY, useChanges } from '../../api/use-changes.ts';
import { useRights } from '../../app/rights.ts';
import { Link } from '../../app/router.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { ago, exactTime, titleOf } from '../../parts/value.ts';

const MOST_ENTITIES = 5;
const PER_ENTITY = 6;
const MOST_SHOWN = 12;
const READ_EVERY_MS = 2_000;
/** Without a stream, or with one that leaves out entities of which the role sees only some rows. */
const POLL_MS = 10_000;
/** "just now" does not stay. */
const AGE_MS = 15_000;

interface Happened {
  id: string;
  entity: string;
  title: string;
  at: string;
  what: 'created' | 'changed' | 'deleted';
}

export function Latest({ tenant, entities }: { tenant: string; entities: readonly Entity[] }) {
  const [isPaused, pause] = useState(false);
  const [deleted, setDeleted] = useState<readonly Happened[]>([]);
  const shownEntities = entities.slice(0, MOST_ENTITIES);
  const again = useReadAgain(tenant, isPaused);
  const titles = useRef(new Map<string, string>());
  const onChange = ({ type, entity, id }: Change): void => {
    again(entity);
    if (type !== 'deleted' || isPaused || !shownEntities.some(({ name }) => name === entity)) return;
    const title = titles.current.get(id) ?? id.slice(0, 8);
    const one: Happened = { id, entity, title, at: new Date().toISOString(), what: 'deleted' };
    setDeleted((all) => [one, ...all].slice(0, MOST_SHOWN));
  };
  const onOpen = (isAgain: boolean): void => {
    if (isAgain) for (const { name } of shownEntities) again(name);
  };
  const [, age] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => age((count) => count + 1), AGE_MS);
    return () => clearInterval(timer);
  }, []);
  const { isAdmin } = useRights(tenant);
  const { state } = useChanges(tenant, EVERY_ENTITY, { onChange, onOpen });
  const hasAll = state === 'live' && isAdmin;
  const results = useQueries({
    queries: shownEntities.map((entity) => ({
      queryKey: keyOf(tenant, 'latest', entity.name),
      queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Happened[]> => {
        const query = { sort: '-updatedAt', limit: PER_ENTITY, count: 'none' };
        const { items } = await get<Page<Row>>(`/api/entities/${entity.name}/records`, { tenant, signal, query });
        return items.map((row) => happened(entity, row));
      },
      refetchInterval: isPaused || hasAll ? (false as const) : POLL_MS,
    })),
  });
  const isLoading = results.some(({ isPending }) => isPending);
  const known = results.flatMap(({ data }) => data ?? []);
  useEffect(() => {
    for (const { id, title } of known) titles.current.set(id, title);
  });
  const gone = new Set(deleted.map(({ id }) => id));
  const latest = [...known.filter(({ id }) => !gone.has(id)), ...deleted]
    .sort((a, b) => b.at.localeCompare(a.at))
    .slice(0, MOST_SHOWN);
  return (
    <section className="panel" aria-labelledby="home-latest">
      <header>
        <h2 id="home-latest">Latest changes</h2>
        <div className="row">
          {hasAll && !isPaused && <Badge tone="ok">live</Badge>}
          <Button kind="quiet" icon={isPaused ? 'play' : 'pause'} onClick={() => pause(!isPaused)}>
            {isPaused ? 'Resume' : 'Pause'}
          </Button>
        </div>
      </header>
      {isLoading && latest.length === 0 && (
        <div className="pad">
          <Skeleton />
        </div>
      )}
      {!isLoading && latest.length === 0 && <p className="pad dim">Nothing yet. Changes to records appear here.</p>}
      <ul className="latest">
        {latest.map(({ id, entity, title, at, what }) => (
          <li key={id}>
            <time className="caption num" dateTime={at} title={exactTime(at)}>
              {ago(at)}
            </time>
            <span className="ellipsis">
              {what === 'deleted' ? title : <Link href={`/app/t/${tenant}/records/${entity}/${id}`}>{title}</Link>}{' '}
              <span className="dim">
                {what} in {entity}
              </span>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function happened({ name, fields }: Entity, row: Row): Happened {
  const what = row.createdAt === row.updatedAt ? 'created' : 'changed';
  return { id: row.id, entity: name, title: titleOf(row, fields), at: row.updatedAt, what };
}

/** Reads an entity again soon; once for all changes until then. While paused, when it goes on. */
function useReadAgain(tenant: string, isPaused: boolean): (entity: string) => void {
  const client = useQueryClient();
  const waiting = useRef(new Set<string>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const isHeld = useRef(isPaused);
  const read = (): void => {
    timer.current = undefined;
    if (isHeld.current || waiting.current.size === 0) return;
    for (const entity of waiting.current) {
      void client.invalidateQueries({ queryKey: keyOf(tenant, 'latest', entity) });
    }
    for (const counts of ['usage', 'count']) void client.invalidateQueries({ queryKey: keyOf(tenant, counts) });
    waiting.current.clear();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what has waited is read when the pause ends
  useEffect(() => {
    isHeld.current = isPaused;
    read();
    return () => clearTimeout(timer.current);
  }, [isPaused]);
  return (entity) => {
    waiting.current.add(entity);
    timer.current ??= setTimeout(read, READ_EVERY_MS);
  };
}
