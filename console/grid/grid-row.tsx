// A row of the grid: a checkbox, and a cell for each column. Cells are plain text; the editor replaces the one that is
// edited. A row that is not loaded yet shows bars.
import { memo, useState } from 'react';
import type { Row } from '../api/answers.ts';
import { Link } from '../app/router.tsx';
import { exactTime, titleOf } from '../parts/value.ts';
import { CellEditor } from './cell-editor.tsx';
import type { GridColumn } from './columns.ts';
import type { CellState, Edits } from './edits.ts';
import type { Mark } from './live-rows.ts';
import { RelationEditor } from './relation-editor.tsx';
import { RelationText } from './relation-text.tsx';
import { cellText, exactText } from './values.ts';
import { isSame } from './write-cells.ts';

/** A cell shows the beginning of a long text; its editor all of it. */
const MOST_CHARACTERS = 300;

export interface Place {
  row: number;
  column: number;
}

interface Props {
  tenant: string;
  index: number;
  y: number;
  row: Row | undefined;
  columns: readonly GridColumn[];
  edits: Edits;
  /** What others did to it while one looked. */
  mark: Mark | undefined;
  /** Changes when a cell's state does. */
  edited: number;
  /** The column that has the grid's tab stop; -1 when another row has it. */
  tabStop: number;
  editing: { place: Place; text: string | null } | null;
  isSelected: boolean;
  /** The first and last column of the block of cells in this row, such as `1-3`; '' when it has none. */
  inBlock: string;
  href: (id: string) => string;
  onFocus: (place: Place) => void;
  onEdit: (place: Place, text: string | null) => void;
  onEndEdit: (next: Place | null) => void;
  onToggle: (index: number, isRange: boolean) => void;
}

export const GridRow = memo(function GridRow(props: Props) {
  const { index, y, row, columns, isSelected } = props;
  return (
    <div
      role="row"
      className={rowClassOf(props)}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      aria-busy={row === undefined || undefined}
      style={{ transform: `translateY(${y}px)` }}
    >
      <div role="gridcell" aria-colindex={1} className="grid-check">
        <input
          type="checkbox"
          tabIndex={-1}
          checked={isSelected}
          disabled={row === undefined}
          aria-label={`Select ${row === undefined ? `row ${index + 1}` : titleOf(row)}`}
          onChange={() => undefined}
          onClick={(event) => props.onToggle(index, event.shiftKey)}
        />
      </div>
      {columns.map((column, at) => (
        <Cell key={column.key} {...props} column={column} at={at} />
      ))}
    </div>
  );
});

/** A message under a cell, as an editor, reaches beyond its row. */
function rowClassOf({ row, columns, edits, editing, isSelected, mark }: Props): string {
  const isRefused = row !== undefined && columns.some(({ key }) => edits.of(row.id, key)?.state === 'refused');
  return [
    'grid-row',
    isSelected ? 'selected' : '',
    editing !== null || isRefused ? 'open' : '',
    mark?.kind === 'gone' ? 'stale gone' : mark?.kind === 'stale' ? 'stale' : '',
  ]
    .filter(Boolean)
    .join(' ');
}

function Cell({ column, at, ...props }: Props & { column: GridColumn; at: number }) {
  const { index, row, edits, editing, tabStop, inBlock } = props;
  const [from = 1, to = 0] = inBlock === '' ? [] : inBlock.split('-').map(Number);
  const isInBlock = at >= from && at <= to;
  const state = row === undefined ? undefined : edits.of(row.id, column.key);
  const value = state === undefined || state.state === 'overtaken' ? row?.[column.key] : state.value;
  if (editing?.place.column === at && row !== undefined) {
    return <OpenCell {...props} {...{ column, at, row, value }} text={editing.text} />;
  }
  const text = cellText(column.field, value);
  return (
    <div
      role="gridcell"
      className={`${classOf(column, at, value, state)} ${markOf(column, props.mark)} ${isInBlock ? 'in-block' : ''}`}
      aria-selected={isInBlock || undefined}
      aria-colindex={at + 2}
      aria-readonly={column.fixed !== null || undefined}
      aria-invalid={state?.state === 'refused' || undefined}
      tabIndex={tabStop === at ? 0 : -1}
      style={{ gridColumn: at + 2 }}
      title={state?.message}
      onMouseEnter={({ currentTarget: cell }) => {
        // Only where the pointer is: a title for each cell costs a part of every frame while the list scrolls.
        if (state === undefined) cell.title = tooltipOf(column, value, cell.textContent ?? '');
      }}
      onFocus={() => tabStop !== at && props.onFocus({ row: index, column: at })}
      onDoubleClick={() => props.onEdit({ row: index, column: at }, null)}
    >
      {at === 0 && props.mark !== undefined && props.mark.kind !== 'changed' && (
        <span className="row-note">{props.mark.kind === 'gone' ? 'deleted' : 'no longer here'}</span>
      )}
      {row === undefined ? <i className="bar" /> : <Content {...props} {...{ column, at, row, value, text }} />}
      {state?.state === 'refused' && <span className="cell-message">{state.message}</span>}
      {state?.state === 'unsent' && <span className="row-note">not sent</span>}
    </div>
  );
}

type OpenProps = Omit<Props, 'row'> & { column: GridColumn; at: number; row: Row; value: unknown; text: string | null };

/** The cell that is edited. What it held when it was opened decides whether the person was overtaken. */
function OpenCell({ column, at, index, row, value, text, edits, onEndEdit }: OpenProps) {
  const [before] = useState(row[column.key]);
  const [etag] = useState(() => edits.rows?.etagOf(row.id) ?? null);
  const Editor = column.field.type.startsWith('relation') && column.field.entity ? RelationEditor : CellEditor;
  const isOvertaken = !isSame(row[column.key], before);
  return (
    <div role="gridcell" className="grid-cell open" aria-colindex={at + 2} style={{ gridColumn: at + 2 }}>
      <Editor
        field={column.field}
        value={value}
        typed={text}
        onCancel={() => {
          edits.discard(row.id, column.key);
          onEndEdit(null);
        }}
        onSave={(next, step) => {
          const { id } = row;
          if (isSame(next, before)) edits.discard(id, column.key);
          else
            void edits.write(
              [{ id, key: column.key, before, value: next, etag }],
              `${column.label} of ${titleOf(row)}`,
            );
          onEndEdit({ row: index + step.down, column: at + step.right });
        }}
      />
      {isOvertaken && (
        <span className="cell-now" role="status">
          changed meanwhile: {cellText(column.field, row[column.key]).slice(0, MOST_CHARACTERS)}
        </span>
      )}
    </div>
  );
}

interface ContentProps extends Pick<Props, 'tenant' | 'href'> {
  column: GridColumn;
  at: number;
  row: Row;
  value: unknown;
  text: string;
}

function Content({ tenant, column, at, row, value, text: whole, href }: ContentProps) {
  const text = whole.slice(0, MOST_CHARACTERS);
  if (at === 0) {
    return (
      <Link href={href(row.id)} tabIndex={-1} draggable={false} className="ellipsis cell-link" dir="auto">
        {value == null || value === '' ? titleOf(row) : text}
      </Link>
    );
  }
  if (column.field.entity && value != null && value !== '')
    return <RelationText {...{ tenant, value }} field={column.field} />;
  if (column.field.type === 'select' && value != null) return <span className="option">{text}</span>;
  return (
    <span className="ellipsis" dir={column.field.type === 'text' ? 'auto' : undefined}>
      {text}
    </span>
  );
}

function classOf(column: GridColumn, at: number, value: unknown, state: CellState | undefined): string {
  return [
    'grid-cell',
    at === 0 ? 'pinned' : '',
    column.isNumber ? 'number' : '',
    value === null || value === undefined ? 'none' : '',
    state?.state ?? '',
  ].join(' ');
}

/** A cell that someone changed fades once; twice the same animation would not begin again. */
function markOf({ key }: GridColumn, mark: Mark | undefined): string {
  if (mark === undefined || !mark.keys.has(key)) return '';
  return mark.turn % 2 === 0 ? 'live again' : 'live';
}

/** What a cell does not show: the exact time or number, or all of a text. */
function tooltipOf({ field }: GridColumn, value: unknown, shown: string): string {
  if (field.type === 'datetime' && typeof value === 'string') return exactTime(value);
  const text = field.entity ? shown : exactText(field, value);
  return text.length > 18 || text !== shown ? text.slice(0, 500) : '';
}
