// What a dialog about many records shows while it works and afterwards: how far it is, what was refused and why, by the
// record's name, and all of that as a file.
import { Button } from '../../parts/button.tsx';
import { saveFile } from '../../parts/save-file.ts';
import { Progress } from '../../parts/states.tsx';
import { counted } from '../../parts/value.ts';
import { csvLine } from './csv.ts';

export interface Refusal {
  id: string;
  title: string;
  message: string;
}

const MOST_NAMED = 100;

export function Working({ what, value, max }: { what: string; value: number; max: number }) {
  const label = `${what}: ${value.toLocaleString('en')} of ${counted(max, 'record')}`;
  return <Progress value={value} max={Math.max(1, max)} label={label} />;
}

export function Refusals({ refused, name }: { refused: readonly Refusal[]; name: string }) {
  const save = (): void => {
    const lines = [csvLine(['id', 'title', 'why']), ...refused.map((one) => csvLine([one.id, one.title, one.message]))];
    saveFile(new Blob(lines, { type: 'text/csv' }), `${name}.csv`);
  };
  return (
    <>
      <section className="refusals" aria-label="What was refused" tabIndex={0}>
        <table>
          <caption className="caption">
            {refused.length > MOST_NAMED
              ? `The first ${MOST_NAMED} of ${counted(refused.length, 'record')}`
              : 'Refused'}
          </caption>
          <thead>
            <tr>
              <th scope="col">record</th>
              <th scope="col">why</th>
            </tr>
          </thead>
          <tbody>
            {refused.slice(0, MOST_NAMED).map(({ id, title, message }) => (
              <tr key={id}>
                <td className="ellipsis">{title}</td>
                <td>{message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <Button kind="quiet" icon="download" onClick={save}>
        Download as CSV
      </Button>
    </>
  );
}
