// Under the grid: what is selected and what can be done with it, what waits for the connection, whether the list is live,
// how many records there are and how exact positions are.
import { useSyncExternalStore } from 'react';
import type { Live } from '../../api/use-changes.ts';
import type { Edits } from '../../grid/edits.ts';
import type { Rows } from '../../grid/rows.ts';
import { ALL, countOf, NONE, type Selection } from '../../grid/selection.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { counted } from '../../parts/value.ts';
import { LiveState } from './live.tsx';

interface Props {
  rows: Rows;
  edits: Edits;
  connection: Live;
  /** Some changes may come without an event. */
  isQuiet: boolean;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  onEdit: () => void;
  onDelete: () => void;
  /** Why the selected ones cannot be changed or deleted now; null when they can, undefined when the role may not. */
  editBlock: string | null | undefined;
  deleteBlock: string | null | undefined;
}

export function Footer(props: Props) {
  const { rows, selection, onSelect, editBlock, deleteBlock } = props;
  useSyncExternalStore(rows.subscribe, rows.version);
  const count = countOf(selection, rows.total);
  const isMore = !selection.isAll && rows.total !== null && (count ?? 0) < rows.total;
  return (
    <footer className="records-footer">
      {count !== 0 && (
        <>
          <strong role="status">{count === null ? 'All that match' : counted(count, 'row')} selected</strong>
          {isMore && (
            <Button kind="quiet" title="Ctrl A" onClick={() => onSelect(ALL)}>
              Select all {rows.total?.toLocaleString('en')} matching
            </Button>
          )}
          {editBlock !== undefined && (
            <Button icon="pencil" disabledReason={editBlock} onClick={props.onEdit}>
              Edit
            </Button>
          )}
          {deleteBlock !== undefined && (
            <Button icon="trash-2" disabledReason={deleteBlock} onClick={props.onDelete}>
              Delete
            </Button>
          )}
          <Button kind="quiet" title="Esc" onClick={() => onSelect(NONE)}>
            Clear selection
          </Button>
        </>
      )}
      <Unsent edits={props.edits} />
      <span className="grow" />
      <LiveState live={props.connection} isQuiet={props.isQuiet} />
      <span className="caption num" role="status">
        {[
          rows.total === null ? (rows.isCounting ? 'counting…' : '') : counted(rows.total, 'record'),
          rows.isApproximate ? 'approximate positions' : '',
          rows.firstMs === null ? '' : `${(rows.firstMs / 1_000).toFixed(1)} s`,
        ]
          .filter(Boolean)
          .join(' · ')}
      </span>
    </footer>
  );
}

function Unsent({ edits }: { edits: Edits }) {
  useSyncExternalStore(edits.subscribe, edits.version);
  const { length } = edits.unsent();
  return (
    <span role="status" className="row">
      {length > 0 && (
        <>
          <Badge tone="warn">{counted(length, 'change')} not sent</Badge>
          <Button kind="quiet" onClick={() => void edits.sendAgain()}>
            Send now
          </Button>
        </>
      )}
    </span>
  );
}
