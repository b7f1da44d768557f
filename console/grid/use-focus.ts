// The cell that has the grid's one tab stop, and the focus of the page while the grid has it. A cell that goes while it
// has the focus hands it on.
import { useCallback, useEffect, useLayoutEffect, useRef } from 'react';
import type { Place } from './grid-row.tsx';
import type { Rows } from './rows.ts';
import type { VirtualScroll } from './scroll.ts';

interface Options {
  rows: Rows;
  columnCount: number;
  scroll: VirtualScroll;
  scroller: React.RefObject<HTMLDivElement | null>;
  focus: Place;
  setFocus: (place: Place) => void;
  /** Gives the focus back to the cell that had it. */
  focusRef: React.RefObject<(() => void) | null>;
}

/** Resolves to a function that moves the focus, into view; row -1 is the header. */
export function useFocus({ rows, columnCount, scroll, scroller, focus, setFocus, focusRef }: Options) {
  const isMoving = useRef(false);
  const moveTo = useCallback(
    (place: Place) => {
      const row = Math.max(-1, Math.min(place.row, rows.length - 1));
      const column = Math.max(0, Math.min(place.column, columnCount - 1));
      if (row >= 0) scroll.show(row);
      isMoving.current = true;
      setFocus({ row, column });
    },
    [rows, columnCount, scroll, setFocus],
  );
  // Within the same key press, so that the next one finds the focus where it belongs.
  useLayoutEffect(() => {
    const grid = scroller.current;
    if (isMoving.current) showFocus(grid, focus);
    else if (isElsewhere(grid, focus)) focusCell(grid, focus);
    isMoving.current = false;
  });
  useEffect(() => {
    focusRef.current = () => moveTo(focus);
    return () => {
      focusRef.current = null;
    };
  }, [focusRef, moveTo, focus]);
  const { length } = rows;
  // Rows that were deleted, a list that became shorter.
  useEffect(() => {
    if (length === 0 || focus.row < length) return;
    const { activeElement, body } = document;
    if (activeElement === body || scroller.current?.contains(activeElement)) moveTo({ ...focus, row: length - 1 });
  }, [length, focus, moveTo, scroller]);
  return moveTo;
}

function showFocus(grid: HTMLElement | null, place: Place): void {
  focusCell(grid, place)?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function focusCell(grid: HTMLElement | null, { row, column }: Place): HTMLElement | null | undefined {
  const cell = grid?.querySelector<HTMLElement>(`[aria-rowindex="${row + 2}"] > [aria-colindex="${column + 2}"]`);
  const target = row < 0 ? cell?.querySelector<HTMLElement>('[tabindex]') : cell;
  target?.focus({ preventScroll: true });
  return cell;
}

/** Whether the element with the focus has been given to another row by scrolling. */
function isElsewhere(grid: HTMLElement | null, { row }: Place): boolean {
  const { activeElement: cell } = document;
  if (cell?.getAttribute('role') !== 'gridcell' || grid?.contains(cell) !== true) return false;
  return cell.parentElement?.getAttribute('aria-rowindex') !== String(row + 2);
}
