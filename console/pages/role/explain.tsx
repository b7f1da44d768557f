// "Explain": why the role sees a record and its fields, or does not. The service is asked as the role; nothing is guessed.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { dependsOnPerson, type Person } from '../../access/as-person.ts';
import { type Explanation, explain } from '../../access/explain.ts';
import type { Role } from '../../access/permissions.ts';
import { PersonField } from '../../access/person-field.tsx';
import type { Entity } from '../../api/answers.ts';
import { entitiesQuery, keyOf } from '../../api/queries.ts';
import { RelationField } from '../../grid/relation-field.tsx';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Skeleton } from '../../parts/states.tsx';

interface Props {
  tenant: string;
  role: Role;
  onClose: () => void;
}

export function Explain({ tenant, role, onClose }: Props) {
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const [name, setName] = useState('');
  const [ids, setIds] = useState<readonly string[]>([]);
  const [person, setPerson] = useState<Person | null>(null);
  const entity = entities.find((one) => one.name === name);
  const isPersonal = dependsOnPerson(role.entities[name]?.rowFilter ?? '');
  const [id] = ids;
  return (
    <Dialog title={`What ${role.name} sees`} onClose={onClose} wide actions={<Button onClick={onClose}>Close</Button>}>
      <div className="stack">
        <p className="dim">Why this role sees a record and its fields, or does not. Unsaved changes do not count.</p>
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
          <RelationField key={name} label="Record" tenant={tenant} entity={name} value={ids} onChange={setIds} />
        )}
        {isPersonal && (
          <PersonField
            label="Person"
            optional
            hint="The row filter depends on the person. Without one, $currentUser has no value."
            tenant={tenant}
            value={person}
            onChange={setPerson}
          />
        )}
        {entity !== undefined && id !== undefined && (
          <Answer {...{ tenant, role, entity, entities, id }} person={isPersonal ? person : null} />
        )}
      </div>
    </Dialog>
  );
}

interface AnswerProps {
  tenant: string;
  role: Role;
  entity: Entity;
  entities: readonly Entity[];
  id: string;
  person: Person | null;
}

function Answer({ tenant, role, entity, entities, id, person }: AnswerProps) {
  const { data, error, refetch } = useQuery({
    queryKey: keyOf(tenant, 'explain', role, entity.name, id, person?.id),
    queryFn: ({ signal }) => explain({ tenant, role, entity, entities, id, person, signal }),
    retry: false,
    staleTime: 0,
  });
  if (error !== null) return <ErrorPanel title="Could not explain it." error={error} onRetry={refetch} />;
  if (data === undefined) return <Skeleton lines={3} />;
  const { conditions, fields, grant } = data;
  return (
    <section className="stack" aria-label="Explanation">
      <p role="status">
        <strong>{sentenceOf(data, role.name, entity.name, person)}</strong>
      </p>
      {conditions.length > 0 && (
        <ul className="role-conditions" aria-label="Row filter">
          {conditions.map(({ text, isMet }) => (
            <li key={text}>
              <Badge tone={isMet ? 'ok' : 'bad'}>{isMet ? 'met' : 'not met'}</Badge> <code>{text}</code>
            </li>
          ))}
        </ul>
      )}
      {grant !== 'none' && (
        <p>
          {fields.hidden.length === 0
            ? `It sees all fields of ${entity.name}.`
            : `Visible fields: ${fields.visible.join(', ') || 'none'}. Hidden: ${fields.hidden.join(', ')}.`}
        </p>
      )}
    </section>
  );
}

function sentenceOf(
  { grant, isVisible, conditions }: Explanation,
  role: string,
  entity: string,
  person: Person | null,
) {
  const who = person === null ? role : `${person.email} as ${role}`;
  if (grant === 'none') return `${who} may not read ${entity}: no row of the matrix grants it.`;
  const source = grant === 'all' ? 'the row for all entities' : `the row ${entity}`;
  if (!isVisible) return `${who} may read ${entity} (${source}), but the row filter hides this record.`;
  const reason = conditions.length === 0 ? 'no row filter hides any' : 'the row filter lets it through';
  return `${who} sees this record: ${source} grants it, and ${reason}.`;
}
