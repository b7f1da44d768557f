// The keyboard of the grid: arrows, Home and End, page up and down, with Ctrl to the edges, with Shift for a block of
// cells; Enter, F2 or typing edits; Space selects the row, Ctrl+A all that match; Delete empties cells or deletes the
// selected rows; Ctrl+Z undoes, Ctrl+Shift+Z does again; Alt+Enter opens the record beside the grid; Esc gives up a
// refused edit, the block, the selection. In the header Enter sorts and Alt with the arrows changes the width.
import { type KeyboardEvent, useCallback } from 'react';
import type { Range } from './clipboard.ts';
import type { GridProps } from './grid.tsx';
import type { Place } from './grid-row.tsx';
import { ALL, NONE } from './selection.ts';

interface Options extends GridProps {
  focus: Place;
  range: Range | null;
  moveTo: (place: Place) => void;
  /** Keeps a corner of the block of cells, or gives the block up. */
  extend: (from: Place | null) => void;
  edit: (place: Place, text: string | null) => void;
  toggle: (index: number, isRange: boolean) => void;
  clear: () => void;
  isEditing: boolean;
  pageRows: number;
}

export function useGridKeys(options: Options): (event: KeyboardEvent<HTMLElement>) => void {
  return useCallback(
    (event) => {
      const target = event.target as HTMLElement;
      const isHead = target.closest('[role=columnheader]:not(.grid-check)') !== null;
      if (options.isEditing || (target.getAttribute('role') !== 'gridcell' && !isHead)) return;
      if (event.altKey && event.key !== 'Enter') return;
      if (move(event, options) || (!isHead && act(event, options))) event.preventDefault();
    },
    [options],
  );
}

function move(event: KeyboardEvent, options: Options): boolean {
  const { focus, rows, columns } = options;
  const isCtrl = event.ctrlKey || event.metaKey;
  const next = moved(event.key, isCtrl, focus, { rows: rows.length, columns: columns.length, page: options.pageRows });
  if (next === null) return false;
  options.extend(event.shiftKey && focus.row >= 0 ? focus : null);
  options.moveTo(event.shiftKey ? { ...next, row: Math.max(0, next.row) } : next);
  return true;
}

function act(event: KeyboardEvent, options: Options): boolean {
  const { focus, rows, columns, edits } = options;
  const isCtrl = event.ctrlKey || event.metaKey;
  const row = rows.at(focus.row);
  const column = columns[focus.column];
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (isCtrl && key === 'a') options.onSelect(ALL);
  else if (isCtrl && key === 'z') void (event.shiftKey ? edits.redo() : edits.undo());
  else if (isCtrl && key === 'y') void edits.redo();
  else if (row === undefined || column === undefined) return false;
  else if (key === 'Enter' && event.altKey) options.onOpen(row.id);
  else if (key === 'Enter' || key === 'F2') options.edit(focus, null);
  else if (key === ' ' && !isCtrl) options.toggle(focus.row, event.shiftKey);
  else if (key === 'Escape') giveUp(options, row.id, column.key);
  else if (key === 'Delete') options.clear();
  else if (event.key.length === 1 && !isCtrl) options.edit(focus, event.key);
  else return false;
  return true;
}

function giveUp({ edits, range, extend, onSelect }: Options, id: string, key: string): void {
  const cell = edits.of(id, key);
  if (cell !== undefined && cell.state !== 'saving') edits.discard(id, key);
  else if (range !== null) extend(null);
  else onSelect(NONE);
}

interface Extent {
  rows: number;
  columns: number;
  page: number;
}

/** Where a key leads; null for one that does not move. Above the first row is the header. */
function moved(key: string, isCtrl: boolean, { row, column }: Place, extent: Extent): Place | null {
  switch (key) {
    case 'ArrowUp':
      return { row: isCtrl ? 0 : row - 1, column };
    case 'ArrowDown':
      return { row: isCtrl ? extent.rows - 1 : row + 1, column };
    case 'ArrowLeft':
      return { row, column: isCtrl ? 0 : column - 1 };
    case 'ArrowRight':
      return { row, column: isCtrl ? extent.columns - 1 : column + 1 };
    case 'Home':
      return { row: isCtrl ? 0 : row, column: 0 };
    case 'End':
      return { row: isCtrl ? extent.rows - 1 : row, column: extent.columns - 1 };
    case 'PageUp':
      return { row: Math.max(0, row - extent.page), column };
    case 'PageDown':
      return { row: row + extent.page, column };
    default:
      return null;
  }
}
