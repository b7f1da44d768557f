// A paste before it is written: how many cells change, which cannot and why, what lies beyond the list. Nothing has been
// written until the person agrees.
import type { PasteRequest } from '../../grid/use-clipboard.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { counted } from '../../parts/value.ts';

const MOST_NAMED = 50;
const MOST_CHARACTERS = 60;

export default function PasteDialog({ plan, write, onClose }: PasteRequest & { onClose: () => void }) {
  const { rows, columns, changes, refused, beyond } = plan;
  const left = [
    beyond.rows > 0 ? `${counted(beyond.rows, 'row')} beyond the list or the limit of 1,000 rows` : '',
    beyond.columns > 0 ? `${counted(beyond.columns, 'column')} beyond the last one` : '',
  ].filter(Boolean);
  return (
    <Dialog
      title={`Change ${counted(rows, 'row')} × ${counted(columns, 'column')}?`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabledReason={changes.length === 0 ? 'Nothing would change.' : null}
            onClick={() => {
              onClose();
              void write();
            }}
          >
            Change {counted(changes.length, 'cell')}
          </Button>
        </>
      }
    >
      <div className="stack">
        <p>
          {counted(changes.length, 'cell')} will change
          {refused.length > 0 && `, ${counted(refused.length, 'cell')} cannot and keep their values`}. A record that
          someone changes meanwhile keeps that value and is shown with both.
        </p>
        {left.length > 0 && <p>Skipped: {left.join('; ')}.</p>}
        {refused.length > 0 && (
          <section className="refusals" aria-label="Cells that cannot" tabIndex={0}>
            <table>
              <caption className="caption">
                {refused.length > MOST_NAMED ? `The first ${MOST_NAMED} of ${refused.length}` : 'Cells that cannot'}
              </caption>
              <thead>
                <tr>
                  <th scope="col">record</th>
                  <th scope="col">field</th>
                  <th scope="col">pasted</th>
                  <th scope="col">why</th>
                </tr>
              </thead>
              <tbody>
                {refused.slice(0, MOST_NAMED).map(({ row, title, column, text, problem }) => (
                  <tr key={`${row} ${column}`}>
                    <td className="ellipsis">{title || `row ${row + 1}`}</td>
                    <td>{column}</td>
                    <td className="ellipsis">{text.slice(0, MOST_CHARACTERS)}</td>
                    <td>{problem}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </div>
    </Dialog>
  );
}
