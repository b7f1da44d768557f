// The focus of a table whose rows are restored one by one from the keyboard.

import { useEffect, useRef } from 'react';

const contentOf = (): HTMLElement | null => document.getElementById('content');

/** The button that has the focus goes with its row: once it has gone, the next row's has it, or the page. */
export function useFocusAfterRow(items: readonly { id: string }[]) {
  const frame = useRef<HTMLDivElement>(null);
  const leaving = useRef<{ id: string; at: number } | null>(null);
  useEffect(() => {
    if (leaving.current === null || items.some(({ id }) => id === leaving.current?.id)) return;
    const buttons = frame.current?.querySelectorAll<HTMLElement>('.table-actions button') ?? [];
    (buttons[Math.min(leaving.current.at, buttons.length - 1)] ?? contentOf())?.focus();
    leaving.current = null;
  }, [items]);
  // With the last row, the table goes.
  useEffect(() => () => void (leaving.current !== null && contentOf()?.focus()), []);
  const focusAfter = (row: { id: string } | null): void => {
    leaving.current = row === null ? null : { id: row.id, at: items.findIndex(({ id }) => id === row.id) };
  };
  return { frame, focusAfter };
}
