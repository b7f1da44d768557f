// The fields of an entity: made, changed and deleted, with what uses each of them.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Entity } from '../../api/answers.ts';
import { statusOf } from '../../api/errors.ts';
import { countQuery, entityQuery } from '../../api/queries.ts';
import { NoRight } from '../../app/no-right.tsx';
import { usePageTitle } from '../../app/page-title.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { go, Link, useUrlState } from '../../app/router.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { CopyAsCurl } from '../../parts/copy-as-curl.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { MenuButton } from '../../parts/menu-button.tsx';
import { Empty, Notice, Skeleton } from '../../parts/states.tsx';
import { useDependents } from '../../schema/dependents.ts';
import { DropEntity, DropField } from '../../schema/drop.tsx';
import { EntityForm } from '../../schema/entity-form.tsx';
import { FieldForm } from '../../schema/field-form.tsx';
import { FieldTable } from './field-table.tsx';

export default function SchemaEntity() {
  const { tenant, entity: name } = useParams();
  usePageTitle(`Schema ${name}`);
  const rights = useRights(tenant);
  const { data: entity, error, refetch } = useQuery(entityQuery(tenant, name));
  if (rights.me !== undefined && !rights.isAdmin) return <NoRight what="change the schema" role={rights.role} />;
  if (entity !== undefined) return <Fields entity={entity} />;
  return (
    <div className="page">
      <h1>{name}</h1>
      {error === null && <Skeleton />}
      {statusOf(error) === 404 && <Empty icon="database">There is no entity {name}.</Empty>}
      {error !== null && statusOf(error) !== 404 && (
        <ErrorPanel title={`Could not load ${name}.`} error={error} onRetry={refetch} />
      )}
    </div>
  );
}

function Fields({ entity }: { entity: Entity }) {
  const { tenant } = useParams();
  const block = useWriteBlock();
  const [link, setLink] = useUrlState({ new: '', field: '' });
  const [dropping, drop] = useState<string | null>(null);
  const [dialog, open] = useState<'entity' | 'drop' | null>(null);
  const { of: dependentsOf, error } = useDependents(entity);
  const { data: count } = useQuery(countQuery(tenant, entity.name));
  const { name, label, description, fields, isSystem } = entity;
  const reason = isSystem ? 'The fields of a system entity cannot be changed.' : block;
  const edited = fields.find(({ key }) => key === link.field);
  const close = (): void => setLink({ new: null, field: null }, { replace: true });
  const make = (
    <Button kind="primary" icon="plus" data-hotkey="n" disabledReason={reason} onClick={() => setLink({ new: '1' })}>
      New field
    </Button>
  );
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>{name}</h1>
          {(label || description) && <p className="dim">{[label, description].filter(Boolean).join(': ')}</p>}
        </div>
        <div className="row">
          <Link className="button plain" href={`/app/t/${tenant}/records/${name}`}>
            Records
          </Link>
          <CopyAsCurl of={({ path }) => path.startsWith(`/api/entities/${name}`)} />
          {!isSystem && block === null && (
            <MenuButton
              label={`More for ${name}`}
              icon="ellipsis"
              choices={[
                { key: 'edit', label: 'Label and description', icon: 'pencil', onSelect: () => open('entity') },
                { key: 'drop', label: 'Delete entity', icon: 'trash-2', onSelect: () => open('drop') },
              ]}
            />
          )}
          {fields.length > 0 && make}
        </div>
      </div>
      {error !== null && <ErrorPanel title="Could not load what uses the fields." error={error} />}
      {count === 0 && !isSystem && block === null && (
        <Notice
          action={
            <span className="row">
              <Link className="button plain" href={`/app/t/${tenant}/records/${name}?new=1`}>
                New record
              </Link>
              <Link className="button plain" href={`/app/t/${tenant}/records/${name}?transfer=import`}>
                Import a file
              </Link>
            </span>
          }
        >
          {name} has no records yet. A file of them brings its fields along.
        </Notice>
      )}
      {fields.length === 0 ? (
        <Empty icon="database" action={make}>
          {name} has no fields. Start with title.
        </Empty>
      ) : (
        <FieldTable
          entity={entity}
          dependentsOf={dependentsOf}
          block={reason}
          onEdit={(key) => setLink({ field: key })}
          onDrop={drop}
        />
      )}
      {link.new !== '' && reason === null && <FieldForm entity={entity} onClose={close} />}
      {edited !== undefined && reason === null && <FieldForm entity={entity} field={edited} onClose={close} />}
      {dropping !== null && <DropField entity={entity} fieldKey={dropping} onClose={() => drop(null)} />}
      {dialog === 'entity' && <EntityForm entity={entity} onClose={() => open(null)} />}
      {dialog === 'drop' && (
        <DropEntity entity={entity} onDropped={() => go(`/app/t/${tenant}/schema`)} onClose={() => open(null)} />
      )}
    </div>
  );
}
