// The history of a record: its versions, newest first, with who made each, when, and what it changed; and the way back to each.
// A change that comes while one looks appears at the top.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Entity, Row } from '../api/answers.ts';
import { statusOf } from '../api/errors.ts';
import { useParams } from '../app/params.ts';
import { useRights } from '../app/rights.ts';
import { useWriteBlock } from '../app/write-block.ts';
import { Button } from '../parts/button.tsx';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Icon } from '../parts/icon.tsx';
import { Empty, Skeleton } from '../parts/states.tsx';
import { ago, counted, exactTime, titleOf } from '../parts/value.ts';
import { Changes, labelOf } from './changes.tsx';
import { RestoreDialog } from './restore-dialog.tsx';
import { historyQuery, lastValues, type Version, whatOf, whoOf } from './versions.ts';

interface Props {
  entity: Entity;
  id: string;
  /** As it is now; null of a record that has been deleted. */
  row: Row | null;
  /** Another one when the record is another than before. */
  seen: string;
  /** Something was restored. */
  onRestored: () => void;
}

const STEP = 20;
/** Where no stream says what happened: roles that see only some rows. */
const POLL_MS = 10_000;
/** "just now" does not stay. */
const AGE_MS = 15_000;

export default function History({ entity, id, row, seen, onRestored }: Props) {
  const { tenant } = useParams();
  const { isAdmin } = useRights(tenant);
  const [wanted, want] = useState(STEP);
  const [chosen, choose] = useState<number | null>(null);
  const { data, error, refetch, isFetching } = useQuery({
    ...historyQuery(tenant, entity.name, id, wanted),
    refetchInterval: isAdmin ? AGE_MS : POLL_MS,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: reads again when the record is another
  useEffect(() => void refetch(), [seen]);
  const [, age] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => age((count) => count + 1), AGE_MS);
    return () => clearInterval(timer);
  }, []);
  if (data === undefined) return error === null ? <Skeleton /> : <NotShown {...{ error, refetch }} />;
  const { items, hasMore } = data;
  const [newest] = items;
  const now = row ?? (newest?.event === 'record.deleted' ? lastValues(id, newest) : null);
  return (
    <section className="history" aria-label="History">
      {error !== null && <ErrorPanel title="The history was not read again." error={error} onRetry={refetch} />}
      {items.length === 0 && (
        <Empty icon="history">
          No changes to show. Changes are kept for 30 days, unless your operator says otherwise.
        </Empty>
      )}
      <ol className="history-versions">
        {items.map((item, at) => (
          <Item
            key={`${item.version} ${item.event}`}
            {...{ entity, item }}
            isNow={at === 0 && item.event !== 'record.deleted'}
            isRestorable={now !== null && isRestorable(items, at)}
            isDeleted={newest?.event === 'record.deleted'}
            onRestore={() => choose(item.version)}
          />
        ))}
      </ol>
      {hasMore ? (
        <div className="row">
          <Button busy={isFetching && items.length < wanted} onClick={() => want(wanted + STEP)}>
            Load older
          </Button>
        </div>
      ) : (
        items.length > 0 && <p className="caption">{endOf(items)}</p>
      )}
      {chosen !== null && now !== null && (
        <RestoreDialog
          {...{ tenant, entity }}
          row={now}
          title={titleOf(now, entity.fields)}
          versions={items}
          version={chosen}
          onChanged={() => {
            void refetch();
            onRestored();
          }}
          onClose={() => choose(null)}
        />
      )}
    </section>
  );
}

function NotShown({ error, refetch }: { error: unknown; refetch: () => unknown }) {
  if (statusOf(error) === 403) {
    return <Empty icon="ban">Your role may not read the history of this record. An admin can change that.</Empty>;
  }
  if (statusOf(error) === 404)
    return <Empty icon="history">There is no history of this record, or your role may not see it.</Empty>;
  return <ErrorPanel title="Could not load the history." error={error} onRetry={refetch} />;
}

/** The version that the record has is not; of a version that was deleted and came back, its change is. */
function isRestorable(items: readonly Version[], at: number): boolean {
  const item = items[at] as Version;
  if (items.some(({ erased }) => erased !== undefined)) return false;
  const isDeleted = items[0]?.event === 'record.deleted';
  if (item.event === 'record.deleted') return false;
  return at > 0 && (isDeleted || item.version !== items[0]?.version);
}

interface ItemProps {
  entity: Entity;
  item: Version;
  isNow: boolean;
  isRestorable: boolean;
  isDeleted: boolean;
  onRestore: () => void;
}

const ICONS = {
  'record.created': 'plus',
  'record.updated': 'pencil',
  'record.deleted': 'trash-2',
  'record.entered': 'log-in',
} as const;

function Item({ entity, item, isNow, isRestorable, isDeleted, onRestore }: ItemProps) {
  const { tenant } = useParams();
  const { me, may, role } = useRights(tenant);
  const block = useWriteBlock();
  const { version, event, at, actor, triggered_by: by, changes } = item;
  const right = isDeleted ? 'create' : 'update';
  const differences = Object.entries(changes).map(([key, { from, to }]) => ({
    key,
    ...(event === 'record.updated' || event === 'record.deleted' ? { from } : {}),
    ...(event === 'record.deleted' ? {} : { to }),
  }));
  const set = differences.filter(
    ({ key }) => event === 'record.updated' || changes[key]?.from != null || changes[key]?.to != null,
  );
  const who = whoOf(actor, me?.id);
  return (
    <li>
      <span className="history-mark" aria-hidden="true">
        <Icon name={ICONS[event]} size={14} />
      </span>
      <div className="history-head">
        <p className="grow">
          <strong>{who.charAt(0).toUpperCase() + who.slice(1)}</strong> {whatOf(item, (key) => labelOf(entity, key))}
          {by === 'rule' && ' by a rule'}
        </p>
        {isRestorable && may(right, entity.name) && (
          <Button
            kind="quiet"
            icon="rotate-ccw"
            aria-label={`Restore this version: ${version}`}
            disabledReason={block}
            onClick={onRestore}
          >
            Restore this version
          </Button>
        )}
      </div>
      <p className="caption">
        <time dateTime={at} title={exactTime(at)} tabIndex={0}>
          {ago(at)}
        </time>
        {event === 'record.deleted' ? '' : ` · version ${version}`}
        {isNow && ' · as it is now'}
      </p>
      {set.length > 0 && <Changes {...{ tenant, entity }} differences={set} />}
      {set.length === 0 && <p className="dim history-none">{noneOf(item, role, me?.id)}</p>}
    </li>
  );
}

/** Why a version shows no values. */
function noneOf({ erased, event }: Version, role: string, self: string | null | undefined): string {
  if (erased !== undefined) {
    const by = erased.by === null ? '' : ` by ${erased.by === self ? 'you' : erased.by.slice(0, 8)}`;
    return `Its values were erased ${ago(erased.at)}${by}. Nobody can bring them back.`;
  }
  if (event !== 'record.updated') return 'It has no values that you see.';
  return `It changed only fields that your role ${role} does not see, or that exist no longer.`;
}

function endOf(items: readonly Version[]): string {
  const oldest = items.at(-1);
  const count = counted(items.length, 'version');
  if (oldest?.event === 'record.created' && oldest.version === 1) return `${count}, from its creation on.`;
  return `${count}. Older ones are not kept any more, or you may not see them.`;
}
