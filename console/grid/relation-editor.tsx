// The editor of a relation in its cell: searches the other entity by what is typed. A single record is saved when it is
// chosen, several when the cell is left.
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { Field } from '../api/answers.ts';
import { useParams } from '../app/params.ts';
import { RelationField } from './relation-field.tsx';

interface Props {
  field: Field;
  value: unknown;
  typed: string | null;
  onSave: (value: unknown, step: { down: number; right: number }) => void;
  onCancel: () => void;
}

export function RelationEditor({ field, value, typed, onSave, onCancel }: Props) {
  const { tenant } = useParams();
  const isList = field.type === 'relations';
  const place = useRef<HTMLDivElement>(null);
  const [ids, setIds] = useState<string[]>(() =>
    Array.isArray(value) ? value.map(String) : typeof value === 'string' && typed === null ? [value] : [],
  );
  const isOver = useRef(false);
  useEffect(() => place.current?.querySelector('input')?.focus(), []);
  const save = (next: readonly string[], right: number): void => {
    if (isOver.current) return;
    isOver.current = true;
    onSave(isList ? next : (next[0] ?? null), { down: 0, right });
  };
  const leave = (right: number): void => {
    if (isList) save(ids, right);
    else if (!isOver.current) save(typeof value === 'string' ? [value] : [], right);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') {
      isOver.current = true;
      onCancel();
    } else if (event.key === 'Tab') leave(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className="cell-relation"
      ref={place}
      onKeyDownCapture={onKeyDown}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) leave(0);
      }}
    >
      <RelationField
        label={field.label ?? field.key}
        tenant={tenant}
        entity={field.entity as string}
        multiple={isList}
        value={ids}
        {...(typed === null ? {} : { typed })}
        onChange={(next) => {
          setIds(next);
          if (!isList) save(next, 0);
        }}
      />
    </div>
  );
}
