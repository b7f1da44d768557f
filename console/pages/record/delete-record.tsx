// "Delete" of a record: says first what refers to it, and what becomes of that.

import type { Entity, Row } from '../../api/answers.ts';
import { del } from '../../api/call.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { editsOf } from '../../grid/edits.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Skeleton } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { counted, titleOf } from '../../parts/value.ts';
import { type Reference, useReferences } from './references.ts';

interface Props {
  entity: Entity;
  row: Row;
  onDeleted: () => void;
  onClose: () => void;
}

const BECOMES = { restrict: 'keep it from being deleted', set_null: 'will lose the link', cascade: 'go with it' };

export function DeleteRecord({ entity, row, onDeleted, onClose }: Props) {
  const { tenant } = useParams();
  const references = useReferences(tenant, entity.name, row.id);
  const title = titleOf(row, entity.fields);
  const isLoading = references.some(({ page, error }) => page === undefined && error === null);
  const found = references.filter(({ page }) => (page?.total ?? 0) > 0);
  const canUndo = useRights(tenant).may('create', entity.name);
  const remove = async (): Promise<void> => {
    const path = `/api/entities/${entity.name}/records`;
    await del(`${path}/${row.id}`, { tenant });
    const edits = editsOf(tenant, path);
    if (canUndo) edits.deleted([{ id: row.id, title, version: null }], `the deletion of ${title}`);
    saySuccess({ title: `${title} was deleted.`, ...(canUndo && { undo: () => void edits.undo() }) });
    onDeleted();
  };
  return (
    <Confirm title={`Delete ${title}?`} onConfirm={remove} onClose={onClose}>
      {isLoading && <Skeleton lines={2} />}
      {!isLoading && found.length === 0 && <p>Nothing refers to it.</p>}
      <ul className="record-effects">
        {found.map((reference) => (
          <li key={`${reference.entity.name} ${reference.field.key}`}>{effectOf(reference)}</li>
        ))}
      </ul>
      <p>
        It can be brought back from “Deleted” while its history is kept.
        {found.length > 0 && ' Links that others lose, and records that go with it, do not come back by that.'}
      </p>
    </Confirm>
  );
}

function effectOf({ entity, field, page }: Reference): string {
  const what = `${counted(page?.total ?? 0, 'record')} of ${entity.name} refer${page?.total === 1 ? 's' : ''} to it`;
  return `${what} by ${field.label ?? field.key} and ${BECOMES[field.onDelete ?? 'restrict']}.`;
}
