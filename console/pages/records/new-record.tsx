// "New record": a form of the entity's fields beside the list. A refusal lands on its field; everything typed stays.
import { type FormEvent, useState } from 'react';
import type { Entity, Row } from '../../api/answers.ts';
import { post } from '../../api/call.ts';
import { problemsByField } from '../../api/errors.ts';
import { useParams } from '../../app/params.ts';
import { FieldControl } from '../../grid/field-control.tsx';
import { parseText } from '../../grid/values.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { titleOf } from '../../parts/value.ts';

interface Props {
  entity: Entity;
  onClose: () => void;
  onCreated: () => void;
}

export function NewRecord({ entity, onClose, onCreated }: Props) {
  const { tenant } = useParams();
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const { body, found } = bodyOf(entity, typed);
    setProblems(found);
    setFailure(null);
    if (Object.keys(found).length > 0 || busy) return;
    setBusy(true);
    try {
      const row = await post<Row>(`/api/entities/${entity.name}/records`, body, { tenant });
      saySuccess({ title: `${titleOf(row, entity.fields)} was added.` });
      onCreated();
      onClose();
    } catch (cause) {
      const byField = problemsByField(cause);
      setProblems(byField);
      if (!entity.fields.some(({ key }) => key in byField)) setFailure(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={`New record in ${entity.name}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="new-record" busy={busy}>
            Save
          </Button>
        </>
      }
    >
      <form id="new-record" className="stack" noValidate onSubmit={submit}>
        {failure !== null && <ErrorPanel title="Nothing was saved." error={failure} />}
        {entity.fields.map((field) => (
          <FieldControl
            key={field.key}
            field={field}
            tenant={tenant}
            value={typed[field.key] ?? ''}
            error={problems[field.key]}
            onChange={(text) => setTyped({ ...typed, [field.key]: text })}
          />
        ))}
      </form>
    </Dialog>
  );
}

/** Members that were left empty are not sent, so that the service fills in its defaults. */
function bodyOf(entity: Entity, typed: Record<string, string>) {
  const body: Record<string, unknown> = {};
  const found: Record<string, string> = {};
  for (const field of entity.fields) {
    const text = typed[field.key] ?? '';
    if (text === '') {
      if (field.required && field.default === undefined) found[field.key] = 'is required';
      continue;
    }
    const parsed = parseText(field, text);
    if ('problem' in parsed) found[field.key] = parsed.problem;
    else body[field.key] = parsed.value;
  }
  return { body, found };
}
