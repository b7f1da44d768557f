// The rows that are mounted: those in view with some around them, in a pool that scrolling gives new contents, and the
// focused one, wherever it is. Positions are virtual (scroll.ts). No row moves in the document: the browser would style and
// lay out all of it again, and take its focus. `aria-rowindex` has the order.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Rows } from './rows.ts';
import { VirtualScroll, type Window } from './scroll.ts';

export const HEAD_PX = 36;
/** Rows above and below the window, so that a small step shows no gap. */
const OVERSCAN = 6;
/** A thumb that is dragged over more rows asks only where it rests. */
const FAR = 200;
const REST_MS = 120;

export interface MountedRow {
  index: number;
  /** The place in the pool, as a key. */
  key: number | 'focused';
  /** Pixels from the top of the body. */
  y: number;
}

/** The mounted rows, and how far the body reaches. */
export function useVirtualRows(
  rows: Rows,
  scroller: React.RefObject<HTMLDivElement | null>,
  focusedRow: number,
  isEditing: boolean,
) {
  const rowPx = useRowHeight();
  const { view, scroll } = useVirtualWindow(rows, rowPx, scroller);
  // Never smaller than before: another size would give every row another place in the pool.
  const poolSize = useRef(0);
  poolSize.current = Math.max(poolSize.current, view.last - view.first + 1 + 2 * OVERSCAN);
  const from = view.first - OVERSCAN;
  // All of the pool, so that none comes and goes where one row more or less fits.
  const to = from + poolSize.current - 1;
  const mounted = indexesOf(from, to, rows.length, focusedRow).map((index): MountedRow => {
    const isIn = index >= from && index <= to;
    // While it is edited it keeps its element, in view or not: the editor has what was typed.
    if (isIn && isEditing && index === focusedRow) return { index, key: 'focused', y: index * rowPx + view.base };
    if (isIn) return { index, key: index % poolSize.current, y: index * rowPx + view.base };
    // Just outside of what is visible, so that it cannot stretch the body.
    return { index, key: 'focused', y: (index < from ? from - 2 : to + 2) * rowPx + view.base };
  });
  mounted.sort((one, other) => slotOf(one) - slotOf(other));
  return { mounted, scroll };
}

function slotOf({ key }: MountedRow): number {
  return key === 'focused' ? Number.POSITIVE_INFINITY : key;
}

function indexesOf(from: number, to: number, length: number, focus: number): number[] {
  const first = Math.max(0, from);
  const last = Math.min(length - 1, to);
  const focused = Math.max(0, focus);
  const indexes = Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
  if (focused < first && focused < length) indexes.unshift(focused);
  else if (focused > last && focused < length) indexes.push(focused);
  return indexes;
}

function useRowHeight(): number {
  const [px] = useState(
    () => Number.parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10) || 36,
  );
  return px;
}

function useVirtualWindow(rows: Rows, rowPx: number, scroller: React.RefObject<HTMLDivElement | null>) {
  const [view, setView] = useState<Window>({ first: 0, last: 30, base: 0, top: 0 });
  const shown = useRef(rows);
  shown.current = rows;
  const scroll = useMemo(() => {
    let first = 0;
    let settled: ReturnType<typeof setTimeout> | undefined;
    return new VirtualScroll(rowPx, HEAD_PX, (next, isResting) => {
      setView(next);
      const direction = next.first < first ? -1 : 1;
      const isFar = Math.abs(next.first - first) > FAR;
      first = next.first;
      clearTimeout(settled);
      const need = (): void => shown.current.need(next.first, next.last, direction);
      if (isResting || !isFar) need();
      else settled = setTimeout(need, REST_MS);
    });
  }, [rowPx]);
  // The same list that is only read again stays where it is; another one begins at its top.
  useLayoutEffect(() => {
    if (!rows.isContinued) scroll.toTop();
  }, [rows, scroll]);
  useLayoutEffect(() => {
    scroll.attach(scroller.current);
    return () => scroll.detach();
  }, [scroll, scroller]);
  useLayoutEffect(() => scroll.setTotal(rows.length));
  useEffect(() => {
    const observer = new ResizeObserver(() => scroll.refresh());
    if (scroller.current !== null) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [scroll, scroller]);
  return { view, scroll };
}
