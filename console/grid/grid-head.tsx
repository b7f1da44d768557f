// The header: select all that is loaded, sort by a click (Shift adds), change a width by dragging its edge, by double
// click, or with Alt and the arrows.
import { type KeyboardEvent, memo, type PointerEvent, useRef } from 'react';
import { Icon } from '../parts/icon.tsx';
import { type GridColumn, nextSort, sortOf, widthOf } from './columns.ts';
import type { GridProps } from './grid.tsx';
import { isSelected, NONE } from './selection.ts';

const STEP_PX = 16;

interface Props extends Pick<GridProps, 'rows' | 'columns' | 'selection' | 'onSelect' | 'sort' | 'onSort' | 'onWidth'> {
  /** Of the rows. */
  version: number;
  /** The column whose header has the grid's tab stop; -1 for none. */
  tabStop: number;
}

/** Drawn again only when it is another: scrolling leaves it as it is. */
export const GridHead = memo(function GridHead(props: Props) {
  const { rows, columns, selection, onSelect } = props;
  const isAny = selection.isAll || selection.ids.size > 0;
  const isAll = isAny && rows.loaded().every(({ id }) => isSelected(selection, id));
  return (
    <div role="rowgroup" className="grid-head">
      <div role="row" className="grid-row head" aria-rowindex={1}>
        <div role="columnheader" aria-colindex={1} className="grid-check">
          <input
            type="checkbox"
            aria-label="Select all loaded rows"
            checked={isAll}
            onChange={() => onSelect(isAll ? NONE : { isAll: false, ids: new Set(rows.loaded().map(({ id }) => id)) })}
          />
        </div>
        {columns.map((column, at) => (
          <HeadCell
            key={column.key}
            {...{ column, at }}
            sort={props.sort}
            onSort={props.onSort}
            onWidth={props.onWidth}
            tabStop={props.tabStop}
          />
        ))}
      </div>
    </div>
  );
});

type HeadProps = Pick<Props, 'sort' | 'onSort' | 'onWidth' | 'tabStop'> & { column: GridColumn; at: number };

function HeadCell({ column, at, sort, onSort, onWidth, tabStop }: HeadProps) {
  const tabIndex = tabStop === at ? 0 : -1;
  const { direction, place } = sortOf(sort, column.key);
  const isOneOfSeveral = direction !== null && sort.includes(',');
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!event.altKey || !['ArrowLeft', 'ArrowRight'].includes(event.key)) return;
    event.preventDefault();
    onWidth(column.key, widthOf(column.width + (event.key === 'ArrowRight' ? STEP_PX : -STEP_PX), column.width));
  };
  return (
    <div
      role="columnheader"
      className={`grid-cell head ${at === 0 ? 'pinned' : ''} ${column.isNumber ? 'number' : ''}`}
      aria-colindex={at + 2}
      aria-sort={direction ?? (column.canSort ? 'none' : undefined)}
      style={{ gridColumn: at + 2 }}
      onKeyDown={onKeyDown}
    >
      {column.canSort ? (
        <button
          type="button"
          title={`Sort by ${column.label}`}
          tabIndex={tabIndex}
          onClick={(event) => onSort(nextSort(sort, column.key, event.shiftKey))}
        >
          <span className="ellipsis">{column.label}</span>
          {direction !== null && <Icon name={direction === 'ascending' ? 'arrow-up' : 'arrow-down'} size={14} />}
          {isOneOfSeveral && <span className="caption">{place + 1}</span>}
        </button>
      ) : (
        <span className="ellipsis" tabIndex={tabIndex}>
          {column.label}
        </span>
      )}
      <Edge column={column} onWidth={onWidth} />
    </div>
  );
}

function Edge({ column, onWidth }: { column: GridColumn; onWidth: GridProps['onWidth'] }) {
  const from = useRef<{ x: number; width: number } | null>(null);
  const onPointerMove = (event: PointerEvent): void => {
    if (from.current === null) return;
    onWidth(column.key, widthOf(from.current.width + event.clientX - from.current.x, column.width));
  };
  return (
    <span
      className="grid-edge"
      aria-hidden="true"
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { x: event.clientX, width: column.width };
      }}
      onPointerMove={onPointerMove}
      onPointerUp={() => {
        from.current = null;
      }}
      onDoubleClick={() => onWidth(column.key, fitted(column))}
    />
  );
}

/** The width of the widest cell that is mounted. */
function fitted(column: GridColumn): number {
  const at = document.querySelector<HTMLElement>('.grid')?.querySelectorAll('.grid-head [role=columnheader]') ?? [];
  const index = [...at].findIndex((cell) => cell.textContent?.includes(column.label));
  const cells = document.querySelectorAll<HTMLElement>(`.grid-body [aria-colindex="${index + 1}"] > *`);
  return widthOf(Math.max(...[...cells].map(({ scrollWidth }) => scrollWidth + 24), 0), column.width);
}
