// Deleted: the records of an entity that have been deleted and have not come back, as they were last, with when and by whom;
// filtered, sorted, and restored one by one.
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { Entity, Field, Row } from '../../api/answers.ts';
import { ApiError, statusOf } from '../../api/errors.ts';
import { entitiesQuery, entityQuery, keyOf } from '../../api/queries.ts';
import { useChanges } from '../../api/use-changes.ts';
import { NoRight } from '../../app/no-right.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Link, useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { FilterField } from '../../filter/filter-field.tsx';
import { choicesOf } from '../../filter/words.ts';
import { columnsOf, nextSort, sortOf } from '../../grid/columns.ts';
import { RelationText } from '../../grid/relation-text.tsx';
import { cellText } from '../../grid/values.ts';
import { bringBack } from '../../history/bring-back.ts';
import { Obstacles } from '../../history/obstacles.tsx';
import { historyQuery, type Listed, readFirst, whoOf } from '../../history/versions.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Empty, Skeleton } from '../../parts/states.tsx';
import { type Column, Table } from '../../parts/table.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { ago, counted, exactTime, titleKeyOf, titleOf } from '../../parts/value.ts';
import { useFocusAfterRow } from './use-focus-after-row.ts';

type Deleted = Row & { deletedAt: string; deletedBy: string | null };

const STEP = 50;
/** Beside the title. */
const MOST_FIELDS = 3;
const MOST_CHARACTERS = 120;
/** However much happens, the list is read once in this time; without a stream it is read as often. */
const READ_EVERY_MS = 2_000;
const POLL_MS = 10_000;
const NEWEST = '-deletedAt';

export default function DeletedRecords() {
  const { tenant, entity: name } = useParams();
  usePageTitle(`Deleted ${name}`);
  const rights = useRights(tenant);
  const { data: entity, error, refetch } = useQuery(entityQuery(tenant, name));
  if (rights.me !== undefined && !rights.may('read', name)) return <NoRight what={`read ${name}`} role={rights.role} />;
  if (entity !== undefined) return <List key={`${tenant} ${name}`} entity={entity} />;
  return (
    <div className="page">
      <h1>Deleted {name}</h1>
      {error === null && <Skeleton />}
      {statusOf(error) === 404 && <Empty icon="trash-2">There is no entity {name}, or your role may not see it.</Empty>}
      {error !== null && statusOf(error) !== 404 && (
        <ErrorPanel title={`Could not load ${name}.`} error={error} onRetry={refetch} />
      )}
    </div>
  );
}

function List({ entity }: { entity: Entity }) {
  const { tenant } = useParams();
  const [{ filters, sort }, set] = useUrlState({ filters: '', sort: '' });
  const [wanted, want] = useState(STEP);
  const path = `/api/entities/${entity.name}/records`;
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: keyOf(tenant, 'deleted', entity.name, filters, sort, wanted),
    queryFn: ({ signal }) =>
      readFirst<Deleted>(tenant, `${path}/deleted`, wanted, { filters, sort, with: 'nextCursor' }, signal),
    placeholderData: keepPreviousData,
    staleTime: 0,
    refetchInterval: POLL_MS,
  });
  useReadOnChange(tenant, entity.name, refetch);
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const choices = useMemo(() => withDeletion(choicesOf(entity, entities)), [entity, entities]);
  const problem = error instanceof ApiError && error.status === 400 ? error.message : null;
  const hasRows = data !== undefined && data.items.length > 0;
  return (
    <div className="page">
      <div className="page-head">
        <h1 className="ellipsis">Deleted {entity.name}</h1>
        <div className="row">
          <CopyAsCurl of={(call) => call.path.startsWith(`${path}/deleted`)} />
          <Link className="button plain" href={`/app/t/${tenant}/records/${entity.name}`}>
            Back to {entity.name}
          </Link>
        </div>
      </div>
      {(hasRows || filters !== '') && (
        <FilterField {...{ choices, problem }} value={filters} onApply={(text) => set({ filters: text })} />
      )}
      {error !== null && problem === null && (
        <ErrorPanel title="Could not load what was deleted." error={error} onRetry={refetch} />
      )}
      {data === undefined && error === null && <Skeleton />}
      {data !== undefined && !hasRows && problem === null && (
        <Nothing name={entity.name} isNarrowed={filters !== ''} onClear={() => set({ filters: null })} />
      )}
      {hasRows && problem === null && (
        <>
          <Rows {...{ entity, sort }} list={data} onSort={(next) => set({ sort: next })} onRestored={refetch} />
          <div className="row">
            {data.hasMore && (
              <Button busy={isFetching && data.items.length < wanted} onClick={() => want(wanted + STEP)}>
                Load more
              </Button>
            )}
            <span className="caption num">
              {data.total === null || data.total <= data.items.length
                ? counted(data.items.length, 'deleted record')
                : `${data.items.length.toLocaleString('en')} of ${counted(data.total, 'deleted record')}`}
            </span>
          </div>
        </>
      )}
    </div>
  );
}

function Nothing({ name, isNarrowed, onClear }: { name: string; isNarrowed: boolean; onClear: () => void }) {
  if (isNarrowed) {
    return (
      <Empty icon="trash-2" action={<Button onClick={onClear}>Clear filter</Button>}>
        No deleted {name} match this filter.
      </Empty>
    );
  }
  return (
    <Empty icon="trash-2">
      No deleted {name}. A deleted record stays here, to be restored, for 30 days or as long as your operator keeps
      events; then it is gone for good.
    </Empty>
  );
}

interface RowsProps {
  entity: Entity;
  list: Listed<Deleted>;
  sort: string;
  onSort: (sort: string) => void;
  onRestored: () => Promise<unknown>;
}

function Rows({ entity, list: { items }, sort, onSort, onRestored }: RowsProps) {
  const { tenant } = useParams();
  const rights = useRights(tenant);
  const block = useWriteBlock();
  const { frame, focusAfter } = useFocusAfterRow(items);
  const [busy, setBusy] = useState<string | null>(null);
  const [failed, setFailed] = useState<{ row: Deleted; error: unknown } | null>(null);
  const nameOf = useNames(tenant, entity.name, items);
  const page = `/app/t/${tenant}/records/${entity.name}`;
  const target = { tenant, path: `/api/entities/${entity.name}/records` };
  const restore = async (row: Deleted): Promise<void> => {
    const title = titleOf(row, entity.fields);
    setBusy(row.id);
    focusAfter(row);
    try {
      await bringBack(target, { id: row.id, title, version: null });
      saySuccess({ title: `${title} is back.`, kind: 'restored' });
      await onRestored();
    } catch (error) {
      focusAfter(null);
      setFailed({ row, error });
    }
    setBusy(null);
  };
  return (
    <div ref={frame}>
      <Table
        caption={`Deleted ${entity.name}`}
        rows={items}
        keyOf={({ id }) => id}
        href={({ id }) => `${page}/${id}`}
        columns={tableColumns(tenant, entity, nameOf)}
        sorting={{
          of: (key) => sortOf(sort || NEWEST, key).direction,
          onSort: (key) => onSort(nextSort(sort || NEWEST, key, false)),
        }}
        {...(rights.may('create', entity.name) && {
          actions: (row: Deleted) => (
            <Button
              icon="rotate-ccw"
              busy={busy === row.id}
              disabledReason={block}
              aria-label={`Restore ${titleOf(row, entity.fields)}`}
              onClick={() => void restore(row)}
            >
              Restore
            </Button>
          ),
        })}
      />
      {failed !== null && (
        <Dialog
          title={`${titleOf(failed.row, entity.fields)} is not back`}
          onClose={() => setFailed(null)}
          actions={
            <Button kind="primary" onClick={() => setFailed(null)}>
              Close
            </Button>
          }
        >
          <div className="stack">
            <Obstacles entity={entity} error={failed.error} />
          </div>
        </Dialog>
      )}
    </div>
  );
}

function tableColumns(tenant: string, entity: Entity, nameOf: (row: Deleted) => string): Column<Deleted>[] {
  const titleKey = titleKeyOf(entity.fields);
  const known = columnsOf(entity);
  const shown = known.filter(({ key, fixed }) => fixed === null && key !== titleKey).slice(0, MOST_FIELDS);
  const title = known.find(({ key }) => key === titleKey);
  return [
    {
      key: titleKey ?? 'id',
      header: title?.label ?? 'record',
      isSortable: title?.canSort ?? true,
      cell: (row) => titleOf(row, entity.fields),
    },
    ...shown.map(
      ({ key, label, field, isNumber, canSort }): Column<Deleted> => ({
        key,
        header: label,
        isMinor: true,
        isSortable: canSort,
        ...(isNumber && { align: 'right' as const }),
        cell: (row) => <Value {...{ tenant, field }} value={row[key]} />,
      }),
    ),
    {
      key: 'deletedAt',
      header: 'deleted',
      isSortable: true,
      cell: ({ deletedAt }) => (
        <time dateTime={deletedAt} title={exactTime(deletedAt)}>
          {ago(deletedAt)}
        </time>
      ),
    },
    { key: 'deletedBy', header: 'by', isMinor: true, isSortable: true, cell: nameOf },
  ];
}

function Value({ tenant, field, value }: { tenant: string; field: Field; value: unknown }) {
  if (field.entity && value != null) return <RelationText {...{ tenant, field, value }} />;
  const text = cellText(field, value);
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

/** A field of such a name is filtered in place of the deletion's own. */
function withDeletion(choices: ReturnType<typeof choicesOf>): ReturnType<typeof choicesOf> {
  const own = (['deletedAt', 'deletedBy'] as const).filter((key) => !choices.some(({ path }) => path === key));
  const type = { deletedAt: 'datetime', deletedBy: 'text' } as const;
  return [...choices, ...own.map((key) => ({ path: key, label: key, group: 'System', field: { type: type[key] } }))];
}

/** Who deleted each: the history of one record of theirs says how they are called. */
function useNames(tenant: string, entity: string, items: readonly Deleted[]): (row: Deleted) => string {
  const { me } = useRights(tenant);
  const samples = [...new Map(items.map(({ id, deletedBy }) => [deletedBy, id])).entries()].slice(0, MOST_ACTORS);
  const found = useQueries({
    queries: samples.map(([, id]) => ({ ...historyQuery(tenant, entity, id, 1), staleTime: 60_000 })),
  });
  const names = new Map(
    samples.flatMap(([by], at) => {
      const item = found[at]?.data?.items[0];
      return item?.event === 'record.deleted' ? [[by, whoOf(item.actor, me?.id)] as const] : [];
    }),
  );
  return ({ deletedBy }) => names.get(deletedBy) ?? (deletedBy === null ? '—' : deletedBy.slice(0, 8));
}
const MOST_ACTORS = 10;

/** Reads again after a deletion or a record that came, once for all that come at a time. */
function useReadOnChange(tenant: string, entity: string, read: () => unknown): void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const plan = (): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      read();
    }, READ_EVERY_MS);
  };
  useChanges(tenant, entity, {
    onChange: ({ type }) => type !== 'updated' && plan(),
    onOpen: (isAgain) => isAgain && plan(),
  });
}
