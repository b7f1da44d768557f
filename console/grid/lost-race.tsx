// Two people changed the same cell: both values, and which one to keep. Nothing is written until the person chooses.
// Stands under the grid, so that it covers no other cell; the first of several is shown.
import { useSyncExternalStore } from 'react';
import { Button } from '../parts/button.tsx';
import { titleOf } from '../parts/value.ts';
import type { GridColumn } from './columns.ts';
import type { Edits } from './edits.ts';
import type { Rows } from './rows.ts';
import { cellText } from './values.ts';

export function LostRaces({ edits, rows, columns }: { edits: Edits; rows: Rows; columns: readonly GridColumn[] }) {
  useSyncExternalStore(edits.subscribe, edits.version);
  const races = edits.overtaken();
  const [race] = races;
  const column = columns.find(({ key }) => key === race?.key);
  if (race === undefined || column === undefined) return null;
  const { id, key, ...state } = race;
  const row = rows.loaded().find((one) => one.id === id);
  const values: [name: string, value: unknown][] = [
    ['yours', state.value],
    ['theirs', state.theirs],
    ['before', state.before],
  ];
  return (
    <section className="lost-race" aria-label={`${column.label} was changed by someone else`}>
      <p role="alert">
        <strong>{row === undefined ? id.slice(0, 8) : titleOf(row)}:</strong> {state.by ?? 'someone else'} changed{' '}
        {column.label} while you were editing.{races.length > 1 && ` ${races.length - 1} more after this.`}
      </p>
      <dl>
        {values.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{cellText(column.field, value)}</dd>
          </div>
        ))}
      </dl>
      <div className="row">
        <Button onClick={() => edits.takeTheirs(id, key)}>Use theirs</Button>
        <Button
          onClick={() =>
            void edits.keepMine(id, key, `${column.label} of ${row === undefined ? id.slice(0, 8) : titleOf(row)}`)
          }
        >
          Use mine
        </Button>
      </div>
    </section>
  );
}
