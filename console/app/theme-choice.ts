// The person's theme: that of the system, or one chosen here. theme.ts applies it at the next start.
import { Store } from '../api/store.ts';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'svc.theme';

const set = document.documentElement.dataset.theme;
export const theme = new Store<Theme>(set === 'light' || set === 'dark' ? set : 'system');

export function choose(next: Theme): void {
  theme.set(next);
  if (next === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // The choice then lasts until the page is left.
  }
}
