// Above the grid: Filter (the expression, as the API takes it), Search, columns, "Copy as curl", and "New record".
import { Popover } from '@ark-ui/react/popover';
import { Portal } from '@ark-ui/react/portal';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { ApiError } from '../../api/errors.ts';
import { entitiesQuery } from '../../api/queries.ts';
import { useParams } from '../../app/params.ts';
import { FilterChips } from '../../filter/chips.tsx';
import { FilterField } from '../../filter/filter-field.tsx';
import { choicesOf } from '../../filter/words.ts';
import { colsOf, type GridColumn } from '../../grid/columns.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { Checkbox } from '../../parts/field.tsx';
import { Icon } from '../../parts/icon.tsx';
import type { Link, SetLink } from './link.ts';

interface Props {
  entity: Entity;
  columns: readonly GridColumn[];
  all: readonly GridColumn[];
  link: Link;
  setLink: SetLink;
  /** Of the calls that list. */
  path: string;
  failure: unknown;
  /** Why nothing can be made now; null when it can, undefined when the role may not. */
  newBlock: string | null | undefined;
  onRefresh: () => void;
  /** What came while one looked. */
  news: ReactNode;
  /** Import and Export. */
  transfers: ReactNode;
  /** The saved views. */
  views: ReactNode;
}

const SEARCH_PAUSE_MS = 300;

export function Tools({
  entity,
  columns,
  all,
  link,
  setLink,
  path,
  failure,
  newBlock,
  onRefresh,
  news,
  transfers,
  views,
}: Props) {
  const { tenant } = useParams();
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const choices = useMemo(() => choicesOf(entity, entities), [entity, entities]);
  const problem = failure instanceof ApiError && failure.status === 400 ? failure.message : null;
  return (
    <div className="records-tools">
      <div className="page-head">
        <h1 className="ellipsis">{entity.name}</h1>
        {news}
        <div className="row">
          <Button kind="quiet" icon="refresh-cw" aria-label="Reload" onClick={onRefresh} />
          <CopyAsCurl of={(call) => call.method === 'GET' && call.path.startsWith(`${path}?`)} />
          <Columns columns={columns} all={all} onChange={(cols) => setLink({ cols })} />
          {views}
          {transfers}
          {newBlock !== undefined && (
            <Button
              kind="primary"
              icon="plus"
              data-hotkey="n"
              disabledReason={newBlock}
              onClick={() => setLink({ new: '1' })}
            >
              New record
            </Button>
          )}
        </div>
      </div>
      <div className="records-fields">
        <FilterField
          choices={choices}
          value={link.filters}
          problem={problem}
          onApply={(filters) => setLink({ filters })}
        />
        <SearchField value={link.search} onChange={(search) => setLink({ search }, { replace: true })} />
        <FilterChips entity={entity} value={link.filters} onChange={(filters) => setLink({ filters })} />
      </div>
    </div>
  );
}

function SearchField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return;
    const timer = setTimeout(() => onChange(text.trim()), SEARCH_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <span className="filter search">
      <Icon name="search" />
      <input
        className="input"
        type="search"
        aria-label="Search"
        placeholder="Search"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </span>
  );
}

function Columns({
  columns,
  all,
  onChange,
}: {
  columns: readonly GridColumn[];
  all: readonly GridColumn[];
  onChange: (cols: string) => void;
}) {
  const isShown = (key: string): boolean => columns.some((column) => column.key === key);
  const toggle = (column: GridColumn): void => {
    const next = isShown(column.key) ? columns.filter(({ key }) => key !== column.key) : [...columns, column];
    if (next.length > 0) onChange(colsOf(next, all));
  };
  return (
    <Popover.Root positioning={{ placement: 'bottom-end' }}>
      <Popover.Trigger className="button plain">
        <Icon name="columns-3" />
        <span>Columns</span>
      </Popover.Trigger>
      <Portal>
        <Popover.Positioner>
          <Popover.Content className="menu records-columns" aria-label="Columns">
            {all.map((column) => (
              <Checkbox
                key={column.key}
                label={column.label}
                checked={isShown(column.key)}
                onChange={() => toggle(column)}
              />
            ))}
            <Button kind="quiet" onClick={() => onChange('')}>
              Reset columns
            </Button>
          </Popover.Content>
        </Popover.Positioner>
      </Portal>
    </Popover.Root>
  );
}
