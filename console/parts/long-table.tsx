// A table of a list that may be long: a search over its rows, kept in the link, and the first rows, with more on demand.
import { useDeferredValue, useState } from 'react';
import { useUrlState } from '../app/router.tsx';
import { Button } from './button.tsx';
import { Table, type TableProps } from './table.tsx';

interface Props<T> extends TableProps<T> {
  /** What is listed, such as "views". */
  noun: string;
  /** What the search looks at. */
  textOf: (row: T) => string;
}

/** From this number of rows on, a field narrows them. */
const SEARCH_FROM = 13;
const STEP = 50;

export function LongTable<T>({ rows, noun, textOf, ...table }: Props<T>) {
  const [{ search }, set] = useUrlState({ search: '' });
  const [most, setMost] = useState(STEP);
  const wanted = useDeferredValue(search.trim().toLowerCase());
  const matching = wanted === '' ? rows : rows.filter((row) => textOf(row).toLowerCase().includes(wanted));
  return (
    <>
      {rows.length >= SEARCH_FROM && (
        <input
          className="input narrow"
          type="search"
          aria-label="Search"
          placeholder={`Search in ${rows.length} ${noun}`}
          value={search}
          data-hotkey="/"
          onChange={(event) => set({ search: event.target.value }, { replace: true })}
        />
      )}
      {matching.length === 0 ? (
        <p className="dim">
          No {noun} match “{search}”.
        </p>
      ) : (
        <Table {...table} rows={matching.slice(0, most)} />
      )}
      {matching.length > most && (
        <div className="row">
          <Button onClick={() => setMost(most + STEP)}>Show {Math.min(STEP, matching.length - most)} more</Button>
          <span className="caption num">
            {most} of {matching.length} {noun}
          </span>
        </div>
      )}
    </>
  );
}
