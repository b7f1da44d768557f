// A table of a list, for up to a few hundred rows; the records grid is for more. The first column names the row; with
// `href` it is a link, so that a row opens in a new tab like any other link.
import { type ReactNode, useId } from 'react';
import { Link } from '../app/router.tsx';
import { Icon } from './icon.tsx';

export interface Column<T> {
  key: string;
  header: string;
  cell: (row: T) => ReactNode;
  align?: 'right';
  /** Hidden under 768 px. */
  isMinor?: boolean;
  /** Its header sorts, where the table does. */
  isSortable?: boolean;
}

export interface TableProps<T> {
  /** What the table lists, for assistive technology. */
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  href?: (row: T) => string;
  /** Buttons at the end of a row. */
  actions?: (row: T) => ReactNode;
  sorting?: { of: (key: string) => 'ascending' | 'descending' | null; onSort: (key: string) => void };
}

export function Table<T>({ caption, columns, rows, keyOf, href, actions, sorting }: TableProps<T>) {
  const id = useId();
  return (
    <div className="table-frame" role="region" aria-labelledby={id} tabIndex={0}>
      <table className="table">
        <caption id={id} className="sr-only">
          {caption}
        </caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.key} column={column} sorting={column.isSortable ? sorting : undefined} />
            ))}
            {actions !== undefined && (
              <th scope="col">
                <span className="sr-only">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ key, cell, align, isMinor }, at) =>
                at === 0 ? (
                  <th key={key} scope="row" className={classes(align, isMinor)}>
                    {href === undefined ? cell(row) : <Link href={href(row)}>{cell(row)}</Link>}
                  </th>
                ) : (
                  <td key={key} className={classes(align, isMinor)}>
                    {cell(row)}
                  </td>
                ),
              )}
              {actions !== undefined && <td className="table-actions">{actions(row)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface HeadProps<T> {
  column: Column<T>;
  sorting: TableProps<T>['sorting'] | undefined;
}

function Head<T>({ column: { key, header, align, isMinor }, sorting }: HeadProps<T>) {
  const direction = sorting?.of(key) ?? null;
  return (
    <th
      scope="col"
      className={classes(align, isMinor)}
      aria-sort={sorting === undefined ? undefined : (direction ?? 'none')}
    >
      {sorting === undefined ? (
        header
      ) : (
        <button type="button" title={`Sort by ${header}`} onClick={() => sorting.onSort(key)}>
          {header}
          {direction !== null && <Icon name={direction === 'ascending' ? 'arrow-up' : 'arrow-down'} size={14} />}
        </button>
      )}
    </th>
  );
}

function classes(align: 'right' | undefined, isMinor = false): string {
  return `${align === 'right' ? 'num right' : ''} ${isMinor ? 'minor' : ''}`.trim();
}
