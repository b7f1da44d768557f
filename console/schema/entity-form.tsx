// "New entity": a label and the name made from it, with first fields from a template; and the label and description of one
// that exists.

import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Entity } from '../api/answers.ts';
import { patch, post } from '../api/call.ts';
import { useParams } from '../app/params.ts';
import { Select, TextAreaField, TextField } from '../parts/field.tsx';
import { FormDialog } from '../parts/form-dialog.tsx';
import { saySuccess } from '../parts/toast.tsx';
import { keyFrom } from './attributes.ts';
import { refreshSchema } from './refresh.ts';

const TEMPLATES = {
  title: {
    label: 'A title',
    fields: [{ key: 'title', type: 'text', label: 'Title', required: true }],
  },
  companies: {
    label: 'Companies',
    fields: [
      { key: 'title', type: 'text', label: 'Title', required: true },
      { key: 'stage', type: 'select', label: 'Stage', options: ['lead', 'customer', 'former'], indexed: true },
      { key: 'website', type: 'url', label: 'Website' },
      { key: 'employees', type: 'integer', label: 'Employees', min: 0 },
    ],
  },
  tasks: {
    label: 'Tasks',
    fields: [
      { key: 'title', type: 'text', label: 'Title', required: true },
      {
        key: 'status',
        type: 'select',
        label: 'Status',
        options: ['open', 'doing', 'done'],
        default: 'open',
        indexed: true,
      },
      { key: 'due', type: 'date', label: 'Due' },
      { key: 'notes', type: 'text', label: 'Notes' },
    ],
  },
  orders: {
    label: 'Orders',
    fields: [
      { key: 'title', type: 'text', label: 'Number', required: true, unique: true },
      { key: 'amount', type: 'decimal', label: 'Amount', min: 0 },
      { key: 'paid', type: 'boolean', label: 'Paid', default: false },
      { key: 'ordered', type: 'datetime', label: 'Ordered' },
    ],
  },
  none: { label: 'None', fields: [] },
} as const;
type Template = keyof typeof TEMPLATES;

interface Props {
  /** The entity to change; a new one without. */
  entity?: Entity;
  onClose: () => void;
  onCreated?: (name: string) => void;
}

export function EntityForm({ entity, onClose, onCreated }: Props) {
  const { tenant } = useParams();
  const client = useQueryClient();
  const [label, setLabel] = useState(entity?.label ?? '');
  const [name, setName] = useState(entity?.name ?? '');
  const [description, setDescription] = useState(entity?.description ?? '');
  const [template, setTemplate] = useState<Template>('title');
  const save = async (): Promise<void> => {
    const words = { label: label.trim() || null, description: description.trim() || null };
    if (entity === undefined)
      await post('/api/entities', { name: name.trim(), ...words, fields: TEMPLATES[template].fields }, { tenant });
    else await patch(`/api/entities/${entity.name}`, words, { tenant });
    await refreshSchema(client, tenant);
    saySuccess({ title: `${name.trim()} is ${entity === undefined ? 'ready' : 'changed'}.` });
    onClose();
    if (entity === undefined) onCreated?.(name.trim());
  };
  return (
    <FormDialog
      title={entity === undefined ? 'New entity' : `Entity ${entity.name}`}
      paths={['name', 'label', 'description']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          {entity === undefined && <p className="dim">An entity is a kind of record, like companies or tasks.</p>}
          <TextField
            label="Label"
            optional
            value={label}
            error={problems.label}
            onChange={({ target: { value } }) => {
              if (entity === undefined && (name === '' || name === keyFrom(label).slice(0, 48)))
                setName(keyFrom(value).slice(0, 48));
              setLabel(value);
            }}
          />
          {entity === undefined && (
            <>
              <TextField
                label="Name"
                hint="Used in API paths, such as companies. It cannot be changed."
                className="mono"
                spellCheck={false}
                value={name}
                error={problems.name}
                onChange={(event) => setName(event.target.value)}
              />
              <Select
                label="First fields"
                hint={
                  TEMPLATES[template].fields.map(({ key, type }) => `${key} ${type}`).join(', ') || 'Add them later.'
                }
                value={template}
                onChange={(event) => setTemplate(event.target.value as Template)}
              >
                {Object.entries(TEMPLATES).map(([key, one]) => (
                  <option key={key} value={key}>
                    {one.label}
                  </option>
                ))}
              </Select>
            </>
          )}
          <TextAreaField
            label="Description"
            optional
            rows={2}
            value={description}
            error={problems.description}
            onChange={(event) => setDescription(event.target.value)}
          />
        </>
      )}
    </FormDialog>
  );
}
