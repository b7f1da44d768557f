// The block of cells between two corners: Shift with arrows or a click moves one corner, dragging too. The focused cell is
// the corner that moves.
import { type MouseEvent, useRef, useState } from 'react';
import type { Range } from './clipboard.ts';
import type { Place } from './grid-row.tsx';

interface Pointing {
  /** More than one cell; null else. */
  range: Range | null;
  /** Keeps the other corner, or begins with `from`; null for no range. */
  extend: (from: Place | null) => void;
  onMouseDown: (event: MouseEvent) => void;
  onMouseMove: (event: MouseEvent) => void;
}

export function useRange(focus: Place, moveTo: (place: Place) => void): Pointing {
  const [corner, setCorner] = useState<Place | null>(null);
  const dragged = useRef<Place | null>(null);
  const extend = (from: Place | null): void => setCorner((now) => (from === null ? null : (now ?? from)));
  const onMouseDown = (event: MouseEvent): void => {
    const place = placeAt(event);
    dragged.current = null;
    if (place === null || event.button !== 0) return;
    if (event.shiftKey) {
      // Neither text nor the link of the title is what one wants with Shift.
      event.preventDefault();
      extend(focus);
      moveTo(place);
    } else {
      setCorner(null);
      dragged.current = place;
    }
  };
  const onMouseMove = (event: MouseEvent): void => {
    const from = dragged.current;
    if (from === null || event.buttons !== 1) return;
    const place = placeAt(event);
    if (place === null || (place.row === focus.row && place.column === focus.column)) return;
    extend(from);
    moveTo(place);
  };
  return { range: rangeOf(corner, focus), extend, onMouseDown, onMouseMove };
}

function rangeOf(corner: Place | null, focus: Place): Range | null {
  if (corner === null || (corner.row === focus.row && corner.column === focus.column)) return null;
  return {
    rows: [Math.max(0, Math.min(corner.row, focus.row)), Math.max(corner.row, focus.row)],
    columns: [Math.min(corner.column, focus.column), Math.max(corner.column, focus.column)],
  };
}

/** The cell under the pointer, unless it is the checkbox's or is being edited. */
function placeAt({ target }: MouseEvent): Place | null {
  const cell = (target as Element).closest('[role=gridcell]:not(.grid-check, .open)');
  const row = cell?.closest('[role=row]');
  if (cell == null || row == null) return null;
  return {
    row: Number(row.getAttribute('aria-rowindex')) - 2,
    column: Number(cell.getAttribute('aria-colindex')) - 2,
  };
}
