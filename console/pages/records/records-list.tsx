// The list of one entity: its tools, its grid, and what stands in the grid's place when there is nothing to show.
import { useCallback, useEffect, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { useUrlState } from '../../app/router.tsx';
import { colsOf } from '../../grid/columns.ts';
import { Grid } from '../../grid/grid.tsx';
import { LostRaces } from '../../grid/lost-race.tsx';
import { NONE, type Selection } from '../../grid/selection.ts';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { type Act, Acts } from './acts.tsx';
import { Footer } from './footer.tsx';
import { LINK, type Link } from './link.ts';
import { News } from './live.tsx';
import { NewRecord } from './new-record.tsx';
import { NoRows } from './no-rows.tsx';
import { RecordPeek } from './record-peek.tsx';
import { SavedViews } from './saved-views.tsx';
import { Tools } from './tools.tsx';
import { TransferDialogs, Transfers } from './transfers.tsx';
import { useAbilities } from './use-abilities.ts';
import { useFocusBack } from './use-focus-back.ts';
import { useList } from './use-list.ts';

interface Props {
  entity: Entity;
  /** The role may read the view that the link names, and not the entity. */
  isViewOnly?: boolean;
}

export function RecordsList({ entity, isViewOnly = false }: Props) {
  const { tenant } = useParams();
  const { isAdmin } = useRights(tenant);
  const [link, setLink] = useUrlState(LINK);
  const [selection, select] = useState<Selection>(NONE);
  const [act, setAct] = useState<Act | null>(null);
  const [readAgain, setReadAgain] = useState(0);
  const refresh = useCallback((): void => setReadAgain((count) => count + 1), []);
  const list = useList(entity, link, readAgain, refresh);
  const { rows, failure, total, hasRows, live, connection, edits, all, columns, path } = list;
  const may = useAbilities(entity.name, isViewOnly);
  const { filters, search, sort } = link;
  // Other records match another list: nothing of it is selected.
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is listed decides
  useEffect(() => select(NONE), [path, filters, search]);
  const { refocus, giveFocusBack } = useFocusBack();
  const onWidth = useCallback(
    (key: string, width: number) => {
      const changed = columns.map((one) => (one.key === key ? { ...one, width } : one));
      setLink({ cols: colsOf(changed, all) }, { replace: true });
    },
    [columns, all, setLink],
  );
  const page = `/app/t/${tenant}/records/${entity.name}`;
  // A record's own page needs the right to read the entity.
  const ownPage = (id: string): string => (isViewOnly ? `${page}?${peekOf(link, id)}` : `${page}/${id}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: through a view the link goes into it
  const hrefOf = useCallback(ownPage, [page, isViewOnly && link]);
  return (
    <div className={`records ${link.peek === '' ? '' : 'peeking'}`}>
      <Tools
        {...{ entity, columns, all, link, setLink, path }}
        failure={failure}
        newBlock={may.create}
        onRefresh={refresh}
        transfers={<Transfers createBlock={may.create} canExport={!isViewOnly} setLink={setLink} />}
        news={<News live={live} onRefresh={refresh} />}
        views={<SavedViews {...{ entity, link, setLink, isViewOnly }} />}
      />
      {failure !== null && !hasRows ? (
        <div className="page">
          <ErrorPanel title={`Could not load ${entity.name}.`} error={failure} onRetry={() => rows.retry()} />
        </div>
      ) : total === 0 && !hasRows ? (
        <NoRows
          name={entity.name}
          isNarrowed={filters !== '' || search !== ''}
          setLink={setLink}
          createBlock={may.create}
        />
      ) : (
        <Grid
          {...{ rows, edits, live, columns, sort, selection, hrefOf, onWidth }}
          label={entity.label ?? entity.name}
          canEdit={may.canEdit}
          focusRef={refocus}
          onSort={(next) => setLink({ sort: next })}
          onSelect={select}
          onDelete={() => may.delete === null && setAct('delete')}
          onPaste={setAct}
          onOpen={(id) => setLink({ peek: id })}
        />
      )}
      <LostRaces edits={edits} rows={rows} columns={columns} />
      <Footer
        {...{ rows, edits, connection, selection }}
        isQuiet={!isAdmin}
        onSelect={(next) => {
          select(next);
          if (next === NONE) giveFocusBack();
        }}
        onEdit={() => setAct('edit')}
        onDelete={() => setAct('delete')}
        editBlock={may.update}
        deleteBlock={may.delete}
      />
      <Acts
        {...{ act, entity, rows, edits, selection }}
        onDeleted={() => {
          select(NONE);
          refresh();
        }}
        onClose={() => {
          setAct(null);
          giveFocusBack();
        }}
      />
      {link.new !== '' && may.create !== undefined && (
        <NewRecord entity={entity} onClose={() => setLink({ new: null }, { replace: true })} onCreated={refresh} />
      )}
      <TransferDialogs
        {...{ entity, columns, link, setLink, total }}
        canImport={may.create !== undefined}
        canExport={!isViewOnly}
        onImported={refresh}
      />
      {link.peek !== '' && (
        <RecordPeek
          entity={entity}
          path={isViewOnly ? path : `/api/entities/${entity.name}/records`}
          id={link.peek}
          href={isViewOnly ? null : hrefOf(link.peek)}
          onClose={() => setLink({ peek: null })}
        />
      )}
    </div>
  );
}

/** The link with a record beside the list. */
function peekOf(link: Link, id: string): string {
  const kept = Object.entries({ ...link, peek: id }).filter(([, value]) => value !== '');
  return new URLSearchParams(kept).toString();
}
