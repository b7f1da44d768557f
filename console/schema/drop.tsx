// "Delete" of a field or an entity: what it holds and what uses it, then the name to type, then "Confirm". The service
// refuses while a condition needs the field or a link the entity, and says which.
import { useQueryClient } from '@tanstack/react-query';
import type { Entity } from '../api/answers.ts';
import { del } from '../api/call.ts';
import { useParams } from '../app/params.ts';
import { Confirm } from '../parts/confirm.tsx';
import { Notice } from '../parts/states.tsx';
import { saySuccess } from '../parts/toast.tsx';
import { counted } from '../parts/value.ts';
import { Records } from './change-effects.tsx';
import { type Dependent, nameDependents, sayDependents } from './dependents.ts';
import { refreshSchema } from './refresh.ts';

export function DropField({
  entity,
  fieldKey,
  dependents,
  onClose,
}: {
  entity: Entity;
  fieldKey: string;
  dependents: readonly Dependent[];
  onClose: () => void;
}) {
  const { tenant } = useParams();
  const client = useQueryClient();
  const blocking = dependents.filter(({ isBlocking }) => isBlocking);
  const drop = async (): Promise<void> => {
    await del(`/api/entities/${entity.name}/fields/${fieldKey}`, { tenant, query: { confirm: fieldKey } });
    await refreshSchema(client, tenant);
    saySuccess({ title: `${fieldKey} was deleted.` });
  };
  return (
    <Confirm title={`Delete the field ${fieldKey}?`} typed={fieldKey} onConfirm={drop} onClose={onClose}>
      <div className="stack">
        <p>
          <Records entity={entity} filter={`${fieldKey} is not null`} say="have a value in it" /> The values are deleted
          for good. Programs can no longer read or write {fieldKey}.
        </p>
        {blocking.length > 0 && (
          <Notice tone="bad">
            {sayDependents(blocking)} {blocking.length === 1 ? 'uses' : 'use'} it: {nameDependents(blocking)}. The
            service refuses until these are changed.
          </Notice>
        )}
        {dependents.length > blocking.length && (
          <Notice tone="warn">
            It is removed from the field lists of: {nameDependents(dependents.filter(({ isBlocking }) => !isBlocking))}.
          </Notice>
        )}
      </div>
    </Confirm>
  );
}

export function DropEntity({
  entity,
  entities,
  onDropped,
  onClose,
}: {
  entity: Entity;
  entities: readonly Entity[];
  onDropped?: () => void;
  onClose: () => void;
}) {
  const { tenant } = useParams();
  const client = useQueryClient();
  const links = entities.flatMap(({ name, fields }) =>
    name === entity.name
      ? []
      : fields.filter((field) => field.entity === entity.name).map(({ key }) => `${name}.${key}`),
  );
  const drop = async (): Promise<void> => {
    await del(`/api/entities/${entity.name}`, { tenant, query: { confirm: entity.name } });
    onDropped?.();
    await refreshSchema(client, tenant);
    saySuccess({ title: `${entity.name} was deleted.` });
  };
  return (
    <Confirm title={`Delete the entity ${entity.name}?`} typed={entity.name} onConfirm={drop} onClose={onClose}>
      <div className="stack">
        <p>
          <Records entity={entity} filter="" say="are in it" /> They are deleted for good, with{' '}
          {counted(entity.fields.length, 'field')} and the views, rules and webhooks of {entity.name}.
        </p>
        {links.length > 0 && (
          <Notice tone="bad">
            {links.join(', ')} {links.length === 1 ? 'links' : 'link'} to it. The service refuses until{' '}
            {links.length === 1 ? 'that field is' : 'these fields are'} deleted.
          </Notice>
        )}
      </div>
    </Confirm>
  );
}
