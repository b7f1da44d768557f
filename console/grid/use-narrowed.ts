// On a narrow screen the pinned column leaves room for the others.
import { useMemo, useSyncExternalStore } from 'react';
import type { GridColumn } from './columns.ts';

const NARROW = matchMedia('(max-width: 767px)');
/** The pinned column under 768 px. */
const NARROW_PX = 140;

export function useNarrowed(columns: readonly GridColumn[]): readonly GridColumn[] {
  const isNarrow = useSyncExternalStore(
    (listener) => {
      NARROW.addEventListener('change', listener);
      return () => NARROW.removeEventListener('change', listener);
    },
    () => NARROW.matches,
  );
  return useMemo(
    () => (isNarrow ? columns.map((column, at) => (at === 0 ? { ...column, width: NARROW_PX } : column)) : columns),
    [columns, isNarrow],
  );
}
