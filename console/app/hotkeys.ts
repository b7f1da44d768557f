// Shortcuts of the whole console. Single letters act only outside fields, and can be switched off in the keyboard map.
import { useEffect } from 'react';
import { Store } from '../api/store.ts';
import { PAGES, pathTo } from './pages.ts';
import { mayOpen, type Rights } from './rights.ts';
import { go } from './router.tsx';

const KEY = 'svc.hotkeys';
/** After `g`, the next letter within this time names a page, in milliseconds. */
const CHORD_MS = 1_500;

function stored(): boolean {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    return true;
  }
}

/** Whether single letters are shortcuts. */
export const letters = new Store(stored());

export function setLetters(value: boolean): void {
  letters.set(value);
  try {
    localStorage.setItem(KEY, value ? 'on' : 'off');
  } catch {
    // The choice then lasts until the page is left.
  }
}

export function useHotkeys(
  tenant: string | null,
  rights: Rights,
  setOverlay: (overlay: 'palette' | 'keys' | null) => void,
): void {
  useEffect(() => {
    let chordUntil = 0;
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setOverlay('palette');
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (!letters.get() || isTyping(event.target)) return;
      const isChord = performance.now() < chordUntil;
      chordUntil = event.key === 'g' && !isChord ? performance.now() + CHORD_MS : 0;
      if (isChord) {
        const page = PAGES.find(({ rail }) => rail?.hotkey === event.key);
        if (page !== undefined && tenant !== null && mayOpen(page, rights)) go(pathTo(page.path, { tenant }));
      } else if (event.key === '?') setOverlay('keys');
      else if (event.key === '/') focus(event, '[data-hotkey="/"]');
      else if (event.key === 'n') click(event, '[data-hotkey="n"]');
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [tenant, rights, setOverlay]);
}

/** In a field, a dialog or the grid, letters are input. */
function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof Element &&
    target.closest('input, textarea, select, [contenteditable], [role=dialog], [role=grid], [role=menu]') !== null
  );
}

function focus(event: KeyboardEvent, selector: string): void {
  const found = document.querySelector<HTMLElement>(selector);
  if (found === null) return;
  event.preventDefault();
  found.focus();
}

function click(event: KeyboardEvent, selector: string): void {
  const found = document.querySelector<HTMLElement>(selector);
  if (found === null) return;
  event.preventDefault();
  found.click();
}
