// "Delete" of a field or an entity: what a dry run says it breaks, then the name to type, then "Confirm". While the service
// refuses, because a condition needs the field or a link the entity, it cannot be confirmed.
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Entity } from '../api/answers.ts';
import { call } from '../api/call.ts';
import { useParams } from '../app/params.ts';
import { Confirm } from '../parts/confirm.tsx';
import { saySuccess } from '../parts/toast.tsx';
import { counted } from '../parts/value.ts';
import { type Change, DryRunReport, useDryRun } from './dry-run.tsx';
import { refreshSchema } from './refresh.ts';

export function DropField({ entity, fieldKey, onClose }: { entity: Entity; fieldKey: string; onClose: () => void }) {
  return (
    <Drop path={`/api/entities/${entity.name}/fields/${fieldKey}`} what="field" name={fieldKey} onClose={onClose}>
      The values of {fieldKey} are deleted for good. Programs can no longer read or write it.
    </Drop>
  );
}

export function DropEntity({
  entity,
  onDropped,
  onClose,
}: {
  entity: Entity;
  onDropped?: () => void;
  onClose: () => void;
}) {
  const { name, fields } = entity;
  return (
    <Drop path={`/api/entities/${name}`} what="entity" name={name} onDropped={onDropped} onClose={onClose}>
      The records of {name} are deleted for good, with {counted(fields.length, 'field')} and the views, rules and
      webhooks of {name}.
    </Drop>
  );
}

interface Props {
  path: string;
  what: 'field' | 'entity';
  name: string;
  children: ReactNode;
  onDropped?: (() => void) | undefined;
  onClose: () => void;
}

function Drop({ path, what, name, children, onDropped, onClose }: Props) {
  const { tenant } = useParams();
  const client = useQueryClient();
  const change: Change = { method: 'DELETE', path, query: { confirm: name } };
  const trial = useDryRun(change);
  const drop = async (): Promise<void> => {
    await call(change.method, path, { tenant, query: change.query });
    onDropped?.();
    await refreshSchema(client, tenant);
    saySuccess({ title: `${name} was deleted.` });
  };
  return (
    <Confirm title={`Delete the ${what} ${name}?`} typed={name} block={trial.block} onConfirm={drop} onClose={onClose}>
      <div className="stack">
        <p>{children}</p>
        <DryRunReport trial={trial} />
      </div>
    </Confirm>
  );
}
