// "New field", and a field being changed. A change that stored values, programs or conditions may not survive is tried by a dry
// run, shown with what it breaks, and made after "Confirm" only; a refusal names what stands in its way.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Entity, FieldType } from '../api/answers.ts';
import { patch, post } from '../api/call.ts';
import { problemsByField } from '../api/errors.ts';
import { entitiesQuery } from '../api/queries.ts';
import { useParams } from '../app/params.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Checkbox, Select, TextAreaField, TextField } from '../parts/field.tsx';
import { saySuccess } from '../parts/toast.tsx';
import { keyFrom, keyProblem, TYPE_NAMES, TYPES } from './attributes.ts';
import { DryRunReport, useDryRun } from './dry-run.tsx';
import { canBreak, changesOf, type Definition, type Draft, definitionOf, draftOf, notesOn } from './field-draft.ts';
import { refreshSchema } from './refresh.ts';
import { TypeOptions } from './type-options.tsx';

interface Props {
  entity: Entity;
  /** The field to change; a new one without. */
  field?: Definition;
  onClose: () => void;
}

export function FieldForm({ entity, field, onClose }: Props) {
  const { tenant } = useParams();
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft>(() => draftOf(field));
  const [isReviewing, review] = useState(false);
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const changes = field === undefined ? {} : changesOf(field, draft);
  const path = `/api/entities/${entity.name}/fields`;
  const trial = useDryRun(
    field !== undefined && isReviewing ? { method: 'PATCH', path: `${path}/${field.key}`, body: changes } : null,
  );
  const set = (part: Partial<Draft>): void => {
    setDraft({ ...draft, ...part });
    setProblems({});
  };
  const save = async (): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      if (field === undefined) await post(path, definitionOf(draft), { tenant });
      else if (Object.keys(changes).length > 0) await patch(`${path}/${field.key}`, changes, { tenant });
      await refreshSchema(client, tenant);
      saySuccess({ title: field === undefined ? `${draft.key} was added.` : `${field.key} was changed.` });
      onClose();
    } catch (cause) {
      const byField = problemsByField(cause);
      setProblems(byField);
      if (!Object.keys(byField).some((name) => name in draft)) setFailure(cause);
      else review(false);
    } finally {
      setBusy(false);
    }
  };
  const back = (): void => {
    setProblems(problemsByField(trial.error));
    setFailure(null);
    review(false);
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const wrong = keyProblem(draft.key.trim());
    if (wrong !== undefined) setProblems({ key: wrong });
    else if (busy) return;
    else if (canBreak(changes) && !isReviewing) review(true);
    else if (isReviewing && trial.block !== null) return;
    else void save();
  };
  return (
    <Dialog
      title={
        field === undefined
          ? `New field in ${entity.name}`
          : isReviewing
            ? `Change ${field.key}?`
            : `Field ${field.key}`
      }
      onClose={onClose}
      wide
      actions={
        <>
          {isReviewing ? <Button onClick={back}>Back</Button> : <Button onClick={onClose}>Cancel</Button>}
          <Button
            kind={isReviewing ? 'danger' : 'primary'}
            type="submit"
            form="field-form"
            busy={busy}
            disabledReason={isReviewing ? trial.block : null}
          >
            {isReviewing ? 'Confirm' : 'Save'}
          </Button>
        </>
      }
    >
      <form id="field-form" className="stack" noValidate onSubmit={submit}>
        {failure !== null && <ErrorPanel title="Nothing was changed." error={failure} />}
        {isReviewing ? (
          <>
            {field !== undefined && notesOn(field, changes).map((note) => <p key={note}>{note}</p>)}
            <DryRunReport trial={trial} />
          </>
        ) : (
          <FieldControls entity={entity} draft={draft} isNew={field === undefined} problems={problems} set={set} />
        )}
      </form>
    </Dialog>
  );
}

interface ControlProps {
  entity: Entity;
  draft: Draft;
  isNew: boolean;
  problems: Record<string, string>;
  set: (part: Partial<Draft>) => void;
}

function FieldControls({ entity, draft, isNew, problems, set }: ControlProps) {
  const { tenant } = useParams();
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const { canBeUnique, canBeIndexed } = TYPES[draft.type];
  const isMade = draft.key === '' || draft.key === keyFrom(draft.label);
  return (
    <>
      <div className="schema-pair">
        <TextField
          label="Label"
          optional
          value={draft.label}
          error={problems.label}
          onChange={({ target: { value } }) =>
            set({ label: value, ...(isNew && isMade ? { key: keyFrom(value) } : {}) })
          }
        />
        <TextField
          label="Key"
          hint="Its name in records and in the API"
          className="mono"
          spellCheck={false}
          value={draft.key}
          error={problems.key ?? (draft.key === 'name' ? keyProblem('name') : undefined)}
          onChange={(event) => set({ key: event.target.value })}
        />
      </div>
      <Select
        label="Type"
        value={draft.type}
        error={problems.type}
        onChange={(event) => set({ type: event.target.value as FieldType })}
      >
        {TYPE_NAMES.map((type) => (
          <option key={type} value={type}>
            {TYPES[type].label} ({type})
          </option>
        ))}
      </Select>
      <TypeOptions draft={draft} problems={problems} entities={entities ?? [entity]} set={set} />
      <div className="schema-checks">
        <Checkbox
          label="Required: every record has a value"
          checked={draft.required}
          onChange={(event) => set({ required: event.target.checked })}
        />
        {canBeUnique && (
          <Checkbox
            label="Unique: no two records have the same value"
            checked={draft.unique}
            onChange={(event) => set({ unique: event.target.checked })}
          />
        )}
        {canBeIndexed && (
          <Checkbox
            label="Indexed: filters and sorting by it stay fast"
            checked={draft.indexed}
            onChange={(event) => set({ indexed: event.target.checked })}
          />
        )}
        {(['required', 'unique', 'indexed'] as const).map(
          (name) =>
            problems[name] !== undefined && (
              <p className="field-error" key={name}>
                {name} {problems[name]}
              </p>
            ),
        )}
      </div>
      <TextAreaField
        label="Description"
        optional
        rows={2}
        value={draft.description}
        error={problems.description}
        onChange={(event) => set({ description: event.target.value })}
      />
    </>
  );
}
