// The form of a record: a control for each field by its type, what the system knows beside it, and what to do with it.
import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { useParams } from '../../app/params.ts';
import { FieldControl } from '../../grid/field-control.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { ago, exactTime } from '../../parts/value.ts';
import { Conflicts } from './conflicts.tsx';
import { DeleteRecord } from './delete-record.tsx';
import type { Draft } from './draft.ts';

interface Props {
  entity: Entity;
  draft: Draft;
  /** Why nothing can be changed now; null when it can. */
  block: string | null;
  /** The same for deleting; undefined when the role may not. */
  deleteBlock: string | null | undefined;
  /** Who changed the record last. */
  by: string | null;
  onSave: () => Promise<void>;
  onChoose: (key: string, whose: 'mine' | 'theirs') => Promise<void>;
  onDeleted: () => void;
}

export function RecordForm({ entity, draft, block, deleteBlock, by, onSave, onChoose, onDeleted }: Props) {
  const { tenant } = useParams();
  const [isAsking, ask] = useState(false);
  const { row } = draft.base;
  const nothing = draft.isDirty ? null : 'Nothing was changed.';
  return (
    <form
      className="record-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (draft.isDirty && block === null && !draft.isSaving) void onSave();
      }}
    >
      {draft.failure !== null && <ErrorPanel title="Nothing was saved." error={draft.failure} />}
      {draft.conflicts.length > 0 && (
        <Conflicts entity={entity} conflicts={draft.conflicts} by={by} onChoose={(...one) => void onChoose(...one)} />
      )}
      <div className="record-columns">
        <div className="record-fields">
          {entity.fields.map((field) => (
            <div key={field.key} className={draft.typed[field.key] === undefined ? '' : 'edited'}>
              <FieldControl
                field={field}
                tenant={tenant}
                value={draft.textOf(field.key)}
                error={draft.problems[field.key]}
                disabled={block !== null}
                onChange={(text) => draft.type(field.key, text)}
              />
            </div>
          ))}
          {entity.fields.length === 0 && <p className="dim">{entity.name} has no fields.</p>}
        </div>
        <dl className="record-system">
          <div>
            <dt>Id</dt>
            <dd>
              <code>{row.id.slice(0, 8)}</code> <CopyButton kind="quiet" value={row.id} />
            </dd>
          </div>
          <Moment name="Changed" at={row.updatedAt} by={row.updatedBy} />
          <Moment name="Created" at={row.createdAt} by={row.createdBy} />
        </dl>
      </div>
      <footer className="record-actions">
        <Button kind="primary" type="submit" busy={draft.isSaving} disabledReason={block ?? nothing}>
          Save
        </Button>
        <Button disabledReason={nothing} onClick={() => draft.discard()}>
          Discard
        </Button>
        <span className="grow" />
        {deleteBlock !== undefined && (
          <Button icon="trash-2" disabledReason={deleteBlock} onClick={() => ask(true)}>
            Delete
          </Button>
        )}
      </footer>
      {isAsking && <DeleteRecord entity={entity} row={row} onDeleted={onDeleted} onClose={() => ask(false)} />}
    </form>
  );
}

function Moment({ name, at, by }: { name: string; at: string; by: string | null }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <time dateTime={at} title={exactTime(at)}>
          {ago(at)}
        </time>
        {by !== null && <span className="dim ellipsis"> by {by}</span>}
      </dd>
    </div>
  );
}
