// The records that a link lists: the rows as they are read, the changes of others, the stream that brings them, and what
// the person did. Reading again and another role make a new list.
import { useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import type { Entity } from '../../api/answers.ts';
import { seenAs } from '../../api/call.ts';
import { useStore } from '../../api/store.ts';
import { useChanges } from '../../api/use-changes.ts';
import { recordsOf } from '../../api/views.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { chosenColumns, columnsOf } from '../../grid/columns.ts';
import { editsOf } from '../../grid/edits.ts';
import { LiveRows } from '../../grid/live-rows.ts';
import { rememberList } from '../../grid/neighbours.ts';
import { Rows } from '../../grid/rows.ts';
import { announce } from './announce.ts';
import { useQuietChanges } from './live.tsx';

type Listed = Record<'filters' | 'search' | 'sort' | 'cols' | 'view', string>;

export function useList(entity: Entity, link: Listed, readAgain: number, onBack: () => void) {
  const { tenant, id } = useParams();
  const rights = useRights(tenant);
  const role = useStore(seenAs);
  const all = useMemo(() => columnsOf(entity), [entity]);
  const columns = useMemo(() => chosenColumns(all, link.cols), [all, link.cols]);
  const entityPath = `/api/entities/${entity.name}/records`;
  const path = link.view === '' ? entityPath : recordsOf(link.view);
  const fields = columns
    .map(({ key }) => key)
    .filter((key) => entity.fields.some((field) => field.key === key))
    .sort()
    .join(',');
  const { filters, search, sort } = link;
  const shownRows = useRef<Rows | null>(null);
  const rows = useMemo(
    () =>
      new Rows(
        { tenant, path, entityPath, filters, search, sort, fields, role, edition: readAgain },
        shownRows.current,
      ),
    [tenant, path, entityPath, filters, search, sort, fields, role, readAgain],
  );
  shownRows.current = rows;
  useEffect(() => {
    rows.start();
    return () => rows.stop();
  }, [rows]);
  const state = useRowsState(rows);
  // On the way to a record the link is that of the record already, and this list no longer the one that was looked at.
  useEffect(() => {
    if (id === '') rememberList(tenant, entity.name, rows);
  }, [tenant, entity.name, id, rows]);
  const live = useMemo(() => new LiveRows(rows), [rows]);
  useEffect(() => () => live.stop(), [live]);
  const connection = useChanges(tenant, entity.name, { onChange: live.take, onOpen: live.catchUp });
  useQuietChanges(live, connection.state === 'live' && !rights.isAdmin);
  const edits = editsOf(tenant, entityPath);
  edits.rows = rows;
  edits.onNotice = (notice) => (notice.kind === 'back' ? onBack() : announce(notice, edits));
  useEffect(
    () => () => {
      edits.rows = null;
    },
    [edits],
  );
  return { rows, ...state, live, connection, edits, all, columns, path };
}

/** What the page shows of the rows, apart from the rows: it is not drawn again for each block that comes. */
function useRowsState(rows: Rows) {
  const failure = useSyncExternalStore(rows.subscribe, () => rows.failure);
  const total = useSyncExternalStore(rows.subscribe, () => rows.total);
  const hasRows = useSyncExternalStore(rows.subscribe, () => rows.length > 0);
  return { failure, total, hasRows };
}
