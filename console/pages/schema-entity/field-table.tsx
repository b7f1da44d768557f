// The fields as a table: type, what it requires, what uses it.
import type { Entity, Field } from '../../api/answers.ts';
import { Button } from '../../parts/button.tsx';
import { Icon } from '../../parts/icon.tsx';
import { LongTable } from '../../parts/long-table.tsx';
import { type DependentsOf, nameDependents, sayDependents } from '../../schema/dependents.ts';

interface Props {
  entity: Entity;
  dependentsOf: DependentsOf | undefined;
  /** Why nothing can be changed; null when it can. */
  block: string | null;
  onEdit: (key: string) => void;
  onDrop: (key: string) => void;
}

export function FieldTable({ entity, dependentsOf, block, onEdit, onDrop }: Props) {
  return (
    <LongTable
      caption={`Fields of ${entity.name}`}
      noun="fields"
      textOf={({ key, label, type }) => `${key} ${label ?? ''} ${type}`}
      rows={entity.fields}
      keyOf={({ key }) => key}
      columns={[
        {
          key: 'key',
          header: 'key',
          cell: ({ key, label }) => (
            <>
              <code>{key}</code>
              {label !== null && label !== key && <span className="caption schema-label">{label}</span>}
            </>
          ),
        },
        { key: 'type', header: 'type', cell: typeOf },
        { key: 'required', header: 'required', cell: ({ required }) => <Yes is={required} />, isMinor: true },
        { key: 'unique', header: 'unique', cell: ({ unique }) => <Yes is={unique} />, isMinor: true },
        { key: 'indexed', header: 'indexed', cell: ({ indexed }) => <Yes is={indexed} />, isMinor: true },
        {
          key: 'used',
          header: 'used by',
          isMinor: true,
          cell: ({ key }) => {
            const found = dependentsOf?.(key) ?? [];
            if (found.length === 0) return <span className="dim">—</span>;
            return <span title={nameDependents(found)}>{sayDependents(found)}</span>;
          },
        },
      ]}
      actions={({ key }) => (
        <>
          <Button
            kind="quiet"
            icon="pencil"
            aria-label={`Edit ${key}`}
            disabledReason={block}
            onClick={() => onEdit(key)}
          />
          <Button
            kind="quiet"
            icon="trash-2"
            aria-label={`Delete ${key}`}
            disabledReason={block}
            onClick={() => onDrop(key)}
          />
        </>
      )}
    />
  );
}

function typeOf({ type, options, entity }: Field): string {
  if (options && options.length > 0) return `${type} of ${options.length}`;
  return entity ? `${type} → ${entity}` : type;
}

function Yes({ is }: { is: boolean }) {
  if (!is) return <span className="dim">—</span>;
  return (
    <>
      <Icon name="check" />
      <span className="sr-only">yes</span>
    </>
  );
}
