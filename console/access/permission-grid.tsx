// Entities by operations as a grid of check boxes: arrows move, Space grants or takes. A box is checked when granted to
// the row itself, mixed when granted by "all entities". Further columns are buttons that open a row's panel under it.
import { type KeyboardEvent, memo, type ReactNode, useCallback, useRef, useState } from 'react';
import { Icon } from '../parts/icon.tsx';
import { grantOf, isPossible, nameOf, OPERATIONS, type Operation, type Permissions } from './permissions.ts';

/** A further column: what its button says about a resource; null where the resource has none. */
export interface LimitColumn {
  key: string;
  header: string;
  text: (resource: string) => string | null;
}

interface Props {
  label: string;
  resources: readonly string[];
  permissions: Permissions;
  onToggle: (resource: string, operation: Operation) => void;
  isReadOnly?: boolean;
  limits?: readonly LimitColumn[];
  /** The row whose panel is open, and what it shows. */
  open?: string | null;
  onOpen?: (resource: string) => void;
  panel?: (resource: string) => ReactNode;
}

const NO_LIMITS: readonly LimitColumn[] = [];
const MOVES: Readonly<Record<string, readonly [rows: number, columns: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

export function PermissionGrid(props: Props) {
  const {
    label,
    resources,
    permissions,
    onToggle,
    isReadOnly = false,
    limits = NO_LIMITS,
    open,
    onOpen,
    panel,
  } = props;
  const table = useRef<HTMLTableElement>(null);
  const [active, setActive] = useState<readonly [row: number, column: number]>([0, 0]);
  const row = Math.min(active[0], Math.max(0, resources.length - 1));
  const move = (event: KeyboardEvent): void => {
    const cell = (event.target as Element).closest('[data-cell]');
    if (cell === null) return;
    const next = targetOf(event, [row, active[1]], [resources.length, OPERATIONS.length + limits.length]);
    if (next === null) return;
    event.preventDefault();
    table.current?.querySelector<HTMLElement>(`[data-cell="${next.join()}"]`)?.focus();
  };
  const focus = useCallback((at: number, column: number) => setActive([at, column]), []);
  return (
    <div className="table-frame">
      <table
        ref={table}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table in which arrows move is a grid
        role="grid"
        aria-label={label}
        aria-readonly={isReadOnly || undefined}
        className="table permission-grid"
        onKeyDown={move}
      >
        <thead>
          <tr>
            <th scope="col">entity</th>
            {OPERATIONS.map((operation) => (
              <th key={operation} scope="col">
                {operation}
              </th>
            ))}
            {limits.map(({ key, header }) => (
              <th key={key} scope="col">
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {resources.map((resource, at) => (
            <Row
              key={resource}
              {...{ resource, at, isReadOnly, limits, onToggle, onOpen, onFocus: focus }}
              grants={OPERATIONS.map((operation) => grantOf(permissions, resource, operation)).join()}
              texts={limits.map(({ text }) => text(resource) ?? '').join('\n')}
              column={at === row ? active[1] : -1}
              panel={open === resource ? panel?.(resource) : undefined}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function targetOf(
  { key, ctrlKey }: KeyboardEvent,
  [row, column]: readonly [number, number],
  [rows, columns]: readonly [number, number],
): readonly [number, number] | null {
  if (key === 'Home') return [ctrlKey ? 0 : row, 0];
  if (key === 'End') return [ctrlKey ? rows - 1 : row, columns - 1];
  const by = MOVES[key];
  if (by === undefined) return null;
  return [clamp(row + by[0], rows), clamp(column + by[1], columns)];
}

const clamp = (at: number, count: number): number => Math.max(0, Math.min(count - 1, at));

interface RowProps {
  resource: string;
  at: number;
  /** Texts rather than lists, so that a row is drawn again only when one differs. */
  grants: string;
  texts: string;
  /** The column that Tab reaches; -1 when it is in another row. */
  column: number;
  isReadOnly: boolean;
  limits: readonly LimitColumn[];
  onToggle: (resource: string, operation: Operation) => void;
  onOpen: ((resource: string) => void) | undefined;
  onFocus: (at: number, column: number) => void;
  panel: ReactNode;
}

const Row = memo(function Row(props: RowProps) {
  const { resource, at, grants, texts, column, isReadOnly, limits, onToggle, onOpen, onFocus, panel } = props;
  const states = grants.split(',');
  const said = texts.split('\n');
  const cell = (c: number) => ({
    'data-cell': `${at},${c}`,
    tabIndex: column === c ? 0 : -1,
    onFocus: () => onFocus(at, c),
  });
  return (
    <>
      <tr>
        <th scope="row">{resource === '*' ? '* (all)' : resource}</th>
        {OPERATIONS.map((operation, c) => (
          <td key={operation}>
            {isPossible(resource, operation) ? (
              <Box
                {...cell(c)}
                label={`${operation} ${nameOf(resource)}`}
                state={states[c] ?? 'none'}
                isReadOnly={isReadOnly}
                onToggle={() => onToggle(resource, operation)}
              />
            ) : (
              <span {...cell(c)} className="permission-none">
                <span className="sr-only">not possible</span>
              </span>
            )}
          </td>
        ))}
        {limits.map(({ key, header }, c) => (
          <td key={key}>
            {said[c] === '' ? (
              <span {...cell(OPERATIONS.length + c)} className="permission-none">
                <span className="sr-only">none</span>
              </span>
            ) : (
              <button
                type="button"
                {...cell(OPERATIONS.length + c)}
                className="button quiet permission-limit"
                aria-label={`${header} of ${resource}: ${said[c]}`}
                aria-expanded={panel !== undefined}
                onClick={() => onOpen?.(resource)}
              >
                <span className="ellipsis">{said[c]}</span>
              </button>
            )}
          </td>
        ))}
      </tr>
      {panel !== undefined && (
        <tr className="permission-panel">
          <td colSpan={1 + OPERATIONS.length + limits.length}>{panel}</td>
        </tr>
      )}
    </>
  );
});

interface BoxProps {
  label: string;
  state: string;
  isReadOnly: boolean;
  onToggle: () => void;
  'data-cell': string;
  tabIndex: number;
  onFocus: () => void;
}

/** A check box in a cell. By "all entities" it is mixed: granted, though not by a check of its own. */
function Box({ label, state, isReadOnly, onToggle, ...cell }: BoxProps) {
  return (
    <button
      type="button"
      role="checkbox"
      {...cell}
      aria-label={label}
      aria-checked={state === 'own' ? true : state === 'all' ? 'mixed' : false}
      aria-readonly={isReadOnly || undefined}
      title={state === 'all' ? `${label}: granted by the * row` : label}
      className={`permission-box ${state}`}
      onClick={() => isReadOnly || onToggle()}
    >
      {state === 'own' && <Icon name="check" size={14} />}
      {state === 'all' && <span aria-hidden="true">*</span>}
    </button>
  );
}
