// Work that goes on while one looks at other pages, such as an import: shown in the top bar until its page has said how it
// ended. The pages that do the work are loaded on demand, so this is all that the frame knows of them.
import { Store } from '../api/store.ts';

export interface Job {
  key: string;
  label: string;
  /** From 0 to 1; null when the work is over. */
  share: number | null;
  /** The page that shows it. */
  href: string;
}

export const jobs = new Store<readonly Job[]>([]);

export function showJob(job: Job): void {
  const known = jobs.get();
  const isKnown = known.some(({ key }) => key === job.key);
  jobs.set(isKnown ? known.map((one) => (one.key === job.key ? job : one)) : [...known, job]);
}

export function endJob(key: string): void {
  jobs.set(jobs.get().filter((one) => one.key !== key));
}
