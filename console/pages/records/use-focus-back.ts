// Gives the focus back to the grid when what had it is gone; to the page when there is no grid.
import { useCallback, useRef } from 'react';

export function useFocusBack() {
  const refocus = useRef<(() => void) | null>(null);
  const giveFocusBack = useCallback((): void => {
    // A dialog gives the focus back to its opener, a frame later; here that may be gone.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        if (document.activeElement !== document.body) return;
        if (refocus.current === null) document.getElementById('content')?.focus();
        else refocus.current();
      }),
    );
  }, []);
  return { refocus, giveFocusBack };
}
