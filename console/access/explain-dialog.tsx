// "Explain": whether a role or credential may do something over a channel, what decided that, which fields it sees, and
// whether a record is one of its rows. Asked of the service, again after each choice.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { entitiesQuery, keyOf } from '../api/queries.ts';
import { RelationField } from '../grid/relation-field.tsx';
import { Badge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { Combobox } from '../parts/combobox.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorPanel } from '../parts/error-panel.tsx';
import { Select } from '../parts/field.tsx';
import { Skeleton } from '../parts/states.tsx';
import { CHANNELS, type Channel, type Explanation, explain, type Question, type Subject } from './explain.ts';
import { OPERATIONS, type Operation } from './permissions.ts';
import { SubjectField } from './subject-field.tsx';

interface Props {
  tenant: string;
  /** Chosen at first. */
  role?: string;
  onClose: () => void;
}

export function ExplainDialog({ tenant, role, onClose }: Props) {
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const [subject, setSubject] = useState<Subject | null>(role === undefined ? null : { as: { role }, person: null });
  const [name, setName] = useState('');
  const [operation, setOperation] = useState<Operation>('read');
  const [channel, setChannel] = useState<Channel>('rest');
  const [ids, setIds] = useState<readonly string[]>([]);
  const entity = entities.find((one) => one.name === name);
  return (
    <Dialog title="Explain access" onClose={onClose} wide actions={<Button onClick={onClose}>Close</Button>}>
      <div className="stack">
        <p className="dim">Why somebody may do something, or not. Unsaved changes of a role do not count.</p>
        <div className="access-question">
          <SubjectField tenant={tenant} value={subject} onChange={setSubject} />
          <Select
            label="Operation"
            value={operation}
            onChange={(event) => setOperation(event.target.value as Operation)}
          >
            {optionsOf(OPERATIONS)}
          </Select>
          <Combobox
            label="Entity"
            options={entities.map((one) => ({ value: one.name, label: one.name }))}
            value={name === '' ? [] : [name]}
            onChange={([next = '']) => {
              setName(next);
              setIds([]);
            }}
          />
          {entity !== undefined && (
            <RelationField
              key={name}
              label="Record"
              optional
              tenant={tenant}
              entity={name}
              value={ids}
              onChange={setIds}
            />
          )}
          <Select label="Channel" value={channel} onChange={(event) => setChannel(event.target.value as Channel)}>
            {optionsOf(CHANNELS)}
          </Select>
        </div>
        {subject !== null && entity !== undefined && (
          <Answer {...{ tenant, subject, operation, entity, entities, channel }} record={ids[0]} />
        )}
      </div>
    </Dialog>
  );
}

function optionsOf(values: readonly string[]) {
  return values.map((value) => <option key={value}>{value}</option>);
}

function Answer(question: Question) {
  const { tenant, subject, operation, entity, record, channel } = question;
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(tenant, 'explain', subject, operation, entity.name, record, channel),
    queryFn: ({ signal }) => explain(question, signal),
    retry: false,
    staleTime: 0,
    gcTime: 0,
  });
  if (error !== null) return <ErrorPanel title="Could not explain it." error={error} onRetry={refetch} />;
  if (data === undefined) return <Skeleton lines={3} />;
  const { allowed, decidedBy, fields, row } = data;
  return (
    <section className="stack" aria-label="Explanation">
      <p role="status">
        <Badge tone={allowed ? 'ok' : 'bad'}>{allowed ? 'allowed' : 'not allowed'}</Badge>{' '}
        <strong>{decidedBy.text}</strong>
      </p>
      <p className="dim">{`Decided by the ${SOURCES[decidedBy.source] ?? decidedBy.source} ${decidedBy.name}.`}</p>
      {row !== null && <Rows {...{ row }} conditions={data.conditions} />}
      <p>
        {fields.hidden.length === 0
          ? `All fields of ${entity.name} are visible.`
          : `Visible fields: ${fields.visible.join(', ') || 'none'}. Hidden: ${fields.hidden.join(', ')}.`}
      </p>
    </section>
  );
}

const SOURCES: Readonly<Record<string, string>> = { api: 'platform API' };

function Rows({ row, conditions }: { row: NonNullable<Explanation['row']>; conditions: Explanation['conditions'] }) {
  return (
    <>
      <p>{row.matches ? 'The record is one of the visible rows.' : 'The record is not one of the visible rows.'}</p>
      {conditions.length > 0 && (
        <ul className="access-conditions" aria-label="Row filter">
          {conditions.map(({ text, isMet }) => (
            <li key={text}>
              <Badge tone={isMet ? 'ok' : 'bad'}>{isMet ? 'met' : 'not met'}</Badge> <code>{text}</code>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
