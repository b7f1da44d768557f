// The keyboard map.
import { useStore } from '../api/store.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Checkbox } from '../parts/field.tsx';
import { letters, setLetters } from './hotkeys.ts';

const KEYS: readonly [keys: string, does: string][] = [
  ['Ctrl K', 'Search or go to'],
  ['/', 'Go to Filter'],
  ['g then h r s w l', 'Home, Records, Schema, Webhooks, Live'],
  ['n', 'New …'],
  ['Arrows, Home, End', 'Move in the grid, into its header too; with Ctrl, to its edges'],
  ['Shift arrows', 'A block of cells; also Shift and a click, or dragging'],
  ['Enter, F2, or type', 'Edit a cell'],
  ['Esc', 'Discard the edit, the block, the selection'],
  ['Tab, Enter', 'Save and move right, or down'],
  ['Space, Shift Space', 'Select the row, all rows up to it'],
  ['Ctrl A', 'Select all that match'],
  ['Ctrl C, Ctrl V', 'Copy the block or the selected rows; paste from a spreadsheet'],
  ['Delete', 'Empty the cells; delete the selected rows'],
  ['Ctrl Z, Ctrl Shift Z', 'Undo, do again'],
  ['Enter, Shift Enter', 'In a header: sort by it, by it too'],
  ['Alt ← →', 'In a header: narrower, wider'],
  ['Alt Enter', 'Open the record beside the grid'],
  ['?', 'Show this list'],
];

export function KeyMap({ onClose }: { onClose: () => void }) {
  const isOn = useStore(letters);
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="key-map">
        {KEYS.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <Checkbox
        label="Use single-letter shortcuts"
        checked={isOn}
        onChange={(event) => setLetters(event.target.checked)}
      />
    </Dialog>
  );
}
