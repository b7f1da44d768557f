// "New view", and a view being changed: its name, its entity, and the condition, as text or built.

import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { post, put } from '../../api/call.ts';
import { conditionOf, type View } from '../../api/views.ts';
import { useParams } from '../../app/params.ts';
import { ConditionField } from '../../filter/condition.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { keyFrom } from '../../schema/attributes.ts';

interface Props {
  view?: View;
  entities: readonly Entity[];
  onSaved: () => Promise<unknown>;
  onClose: () => void;
}

export function ViewForm({ view, entities, onSaved, onClose }: Props) {
  const { tenant } = useParams();
  const [name, setName] = useState(view?.name ?? '');
  const [typedSlug, setSlug] = useState(view?.slug ?? '');
  const [entityName, setEntity] = useState(view?.entitySlug ?? '');
  const [description, setDescription] = useState(view?.description ?? '');
  const [condition, setCondition] = useState(view === undefined ? '' : conditionOf(view));
  const slug = typedSlug || keyFrom(name).replaceAll('_', '-');
  const entity = entities.find((one) => one.name === entityName);
  const save = async (): Promise<void> => {
    const text = condition.trim();
    const body = {
      name: name.trim(),
      description: description.trim() || null,
      filterDsl: { validate: text === '' ? [] : [{ condition: text }] },
    };
    if (view === undefined) await post('/api/views', { ...body, slug, entitySlug: entityName }, { tenant });
    else await put(`/api/views/${view.slug}`, body, { tenant });
    await onSaved();
    saySuccess({ title: `${body.name} was saved.` });
    onClose();
  };
  return (
    <FormDialog
      title={view === undefined ? 'New view' : `View ${view.name}`}
      wide
      paths={['name', 'slug', 'entitySlug', 'description', 'filterDsl.']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <div className="schema-pair">
            <TextField
              label="Name"
              value={name}
              error={problems.name}
              onChange={(event) => setName(event.target.value)}
            />
            {view === undefined && (
              <TextField
                label="Name in the API"
                className="mono"
                spellCheck={false}
                value={slug}
                error={problems.slug}
                onChange={(event) => setSlug(event.target.value)}
              />
            )}
          </div>
          {view === undefined && (
            <Combobox
              label="Entity"
              options={entities.map((one) => ({ value: one.name, label: one.name }))}
              value={entityName === '' ? [] : [entityName]}
              error={problems.entitySlug}
              onChange={([one = '']) => setEntity(one)}
            />
          )}
          {entity !== undefined && (
            <ConditionField
              label="Condition"
              hint="Empty: all records"
              entity={entity}
              value={condition}
              error={Object.entries(problems).find(([path]) => path.startsWith('filterDsl.'))?.[1]}
              onChange={setCondition}
            />
          )}
          <TextField
            label="Description"
            optional
            value={description}
            error={problems.description}
            onChange={(event) => setDescription(event.target.value)}
          />
        </>
      )}
    </FormDialog>
  );
}
