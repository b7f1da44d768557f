// The dialogs about many records or cells, loaded when they are opened: bulk edit, bulk delete, a paste to look at first.
import { lazy, Suspense } from 'react';
import type { Entity } from '../../api/answers.ts';
import type { Edits } from '../../grid/edits.ts';
import type { Rows } from '../../grid/rows.ts';
import type { Selection } from '../../grid/selection.ts';
import type { PasteRequest } from '../../grid/use-clipboard.ts';

const BulkEdit = lazy(() => import('./bulk-edit.tsx'));
const BulkDelete = lazy(() => import('./bulk-delete.tsx'));
const PasteDialog = lazy(() => import('./paste-dialog.tsx'));

export type Act = 'edit' | 'delete' | PasteRequest;

interface Props {
  act: Act | null;
  entity: Entity;
  rows: Rows;
  edits: Edits;
  selection: Selection;
  onDeleted: () => void;
  onClose: () => void;
}

export function Acts({ act, ...props }: Props) {
  return (
    <Suspense fallback={null}>
      {act === 'edit' && <BulkEdit {...props} />}
      {act === 'delete' && <BulkDelete {...props} />}
      {act !== null && typeof act === 'object' && <PasteDialog {...act} onClose={props.onClose} />}
    </Suspense>
  );
}
