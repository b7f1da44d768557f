// The records grid: rows in a pool over a virtual position, plain text cells, one editor over the focused cell, one tab
// stop. The focused row stays mounted while it is scrolled away.
import { useCallback, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { go } from '../app/router.tsx';
import type { GridColumn } from './columns.ts';
import type { Edits } from './edits.ts';
import { GridHead } from './grid-head.tsx';
import { GridRow, type Place } from './grid-row.tsx';
import { useGridKeys } from './keys.ts';
import type { LiveRows } from './live-rows.ts';
import type { Rows } from './rows.ts';
import { countOf, isSelected, type Selection, withRange } from './selection.ts';
import { type PasteRequest, useClipboard } from './use-clipboard.ts';
import { useFocus } from './use-focus.ts';
import { useNarrowed } from './use-narrowed.ts';
import { useRange } from './use-range.ts';
import { useVirtualRows } from './virtual-window.ts';

const CHECK_PX = 44;

export interface GridProps {
  label: string;
  rows: Rows;
  edits: Edits;
  columns: readonly GridColumn[];
  sort: string;
  onSort: (sort: string) => void;
  onWidth: (key: string, width: number) => void;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  /** Asks whether to delete the selected rows. */
  onDelete: () => void;
  /** A paste that the person should look at first. */
  onPaste: (request: PasteRequest) => void;
  onOpen: (id: string) => void;
  /** Where a record's own page is. */
  hrefOf: (id: string) => string;
  canEdit: boolean;
  /** What changes of others did to the rows. */
  live: LiveRows;
  /** Gives the focus back to the cell that had it. */
  focusRef: React.RefObject<(() => void) | null>;
}

interface Editing {
  place: Place;
  /** What was typed to open the editor; null when nothing was. */
  text: string | null;
}

export function Grid(props: GridProps) {
  const { rows, edits, live, selection, onSelect, canEdit, hrefOf } = props;
  const columns = useNarrowed(props.columns);
  useSyncExternalStore(rows.subscribe, rows.version);
  useSyncExternalStore(edits.subscribe, edits.version);
  useSyncExternalStore(live.subscribe, live.version);
  const scroller = useRef<HTMLDivElement>(null);
  const [focus, setFocus] = useState<Place>({ row: 0, column: 0 });
  const [editing, setEditing] = useState<Editing | null>(null);
  const anchor = useRef<number | null>(null);
  // Not a dependency of what rows get: a row is drawn again only when it is another.
  const focused = useRef(focus);
  focused.current = focus;
  const { mounted, scroll } = useVirtualRows(rows, scroller, focus.row, editing !== null);
  const { focusRef } = props;
  const moveTo = useFocus({ rows, columnCount: columns.length, scroll, scroller, focus, setFocus, focusRef });
  const { range, extend, onMouseDown, onMouseMove } = useRange(focus, moveTo);
  const edit = useCallback(
    (place: Place, text: string | null) => {
      const row = rows.at(place.row);
      const column = columns[place.column];
      if (row === undefined || column === undefined || column.fixed !== null || !canEdit) return;
      // A text of which only the beginning is here is changed on the record's own page.
      if (rows.isCut(row.id, column.key)) return go(hrefOf(row.id));
      setFocus(place);
      setEditing({ place, text });
    },
    [rows, columns, canEdit, hrefOf],
  );
  const endEdit = useCallback(
    (next: Place | null) => {
      setEditing(null);
      moveTo(next ?? focused.current);
    },
    [moveTo],
  );
  const toggle = useCallback(
    (index: number, isRange: boolean) => {
      const from = isRange && anchor.current !== null ? anchor.current : index;
      anchor.current = index;
      onSelect(withRange(selection, rows, from, index, !isSelected(selection, rows.at(index)?.id)));
      // The keys go on from the row whose checkbox was clicked.
      moveTo({ row: index, column: focused.current.column });
    },
    [rows, selection, onSelect, moveTo],
  );
  const block = range ?? { rows: [focus.row, focus.row], columns: [focus.column, focus.column] };
  const isEditing = editing !== null;
  const clipboard = useClipboard({ ...props, columns, block, isBlock: range !== null, isEditing });
  const clear = (): void => {
    if (countOf(selection, rows.total) !== 0 && range === null) props.onDelete();
    else void clipboard.paste('');
  };
  const { pageRows } = scroll;
  const keys = { ...props, columns, focus, range, moveTo, extend, edit, toggle, clear, isEditing, pageRows };
  const onKeyDown = useGridKeys(keys);
  const sizes = useMemo(() => sizesOf(columns), [columns]);
  return (
    <div
      className="grid"
      role="grid"
      aria-label={props.label}
      aria-rowcount={rows.total === null ? -1 : rows.total + 1}
      aria-colcount={columns.length + 1}
      aria-multiselectable="true"
      aria-readonly={!canEdit}
      ref={scroller}
      style={sizes}
      onKeyDown={onKeyDown}
      onMouseDown={onMouseDown}
      onMouseMove={onMouseMove}
      onScroll={pinWhenMoved}
      // What is typed is seen.
      onInput={() => editing !== null && scroll.show(editing.place.row)}
      onClickCapture={(event) => event.shiftKey && isInBody(event.target) && event.preventDefault()}
      onCopy={clipboard.onCopy}
      onPaste={clipboard.onPaste}
    >
      <GridHead
        {...{ rows, columns, selection, onSelect }}
        version={rows.version()}
        sort={props.sort}
        onSort={props.onSort}
        onWidth={props.onWidth}
        tabStop={focus.row < 0 || rows.length === 0 ? focus.column : -1}
      />
      <div role="rowgroup" className="grid-body" style={{ height: scroll.height }}>
        {mounted.map(({ index, key, y }) => {
          const row = rows.at(index);
          return (
            <GridRow
              key={key}
              {...{ index, y, row, columns, edits }}
              tenant={rows.query.tenant}
              edited={edits.version()}
              mark={row && live.of(row.id)}
              tabStop={focus.row === index ? focus.column : -1}
              editing={editing?.place.row === index ? editing : null}
              isSelected={isSelected(selection, row?.id)}
              inBlock={
                range !== null && index >= range.rows[0] && index <= range.rows[1] ? range.columns.join('-') : ''
              }
              href={hrefOf}
              onFocus={setFocus}
              onEdit={edit}
              onEndEdit={endEdit}
              onToggle={toggle}
            />
          );
        })}
      </div>
    </div>
  );
}

/** Widths as custom properties, for the header and every row. */
function sizesOf(columns: readonly GridColumn[]): React.CSSProperties {
  const cols = `${CHECK_PX}px ${columns.map(({ width }) => `${width}px`).join(' ')} minmax(0, 1fr)`;
  const width = CHECK_PX + columns.reduce((sum, column) => sum + column.width, 0);
  return { '--cols': cols, '--grid-width': `${width}px` } as React.CSSProperties;
}

/** Cells stick to the left only where the grid is scrolled sideways: each that sticks is a layer of the page. */
function pinWhenMoved({ currentTarget: grid }: React.UIEvent<HTMLElement>): void {
  const isMoved = grid.scrollLeft > 0;
  if (isMoved !== (grid.dataset.moved !== undefined)) grid.toggleAttribute('data-moved', isMoved);
}

function isInBody(target: EventTarget): boolean {
  return (target as Element).closest('.grid-body') !== null && (target as Element).closest('.grid-check') === null;
}
