// Fields that someone else changed while one was editing: both values and the one before, and which to keep.
import type { Entity } from '../../api/answers.ts';
import { useParams } from '../../app/params.ts';
import { RelationText } from '../../grid/relation-text.tsx';
import { cellText } from '../../grid/values.ts';
import { Button } from '../../parts/button.tsx';
import type { Conflict } from './draft.ts';

interface Props {
  entity: Entity;
  conflicts: readonly Conflict[];
  by: string | null;
  onChoose: (key: string, whose: 'mine' | 'theirs') => void;
}

export function Conflicts({ entity, conflicts, by, onChoose }: Props) {
  return (
    <section className="record-conflicts" aria-label="Changed by someone else">
      <p role="alert">
        <strong>
          {by ?? 'Someone else'} changed {conflicts.map(({ key }) => labelOf(entity, key)).join(', ')} while you were
          editing.
        </strong>{' '}
        Nothing was saved yet.
      </p>
      {conflicts.map(({ key, mine, theirs, before }) => (
        <div key={key} role="group" aria-label={labelOf(entity, key)}>
          <dl>
            <Value entity={entity} name="yours" of={key} value={mine} />
            <Value entity={entity} name="theirs" of={key} value={theirs} />
            <Value entity={entity} name="before" of={key} value={before} />
          </dl>
          <span className="row">
            <Button onClick={() => onChoose(key, 'theirs')}>Use theirs</Button>
            <Button onClick={() => onChoose(key, 'mine')}>Use mine</Button>
          </span>
        </div>
      ))}
    </section>
  );
}

function Value({ entity, name, of, value }: { entity: Entity; name: string; of: string; value: unknown }) {
  const { tenant } = useParams();
  const field = entity.fields.find(({ key }) => key === of);
  if (field === undefined) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{field.entity && value != null ? <RelationText {...{ tenant, field, value }} /> : cellText(field, value)}</dd>
    </div>
  );
}

function labelOf({ fields }: Entity, key: string): string {
  return fields.find((field) => field.key === key)?.label ?? key;
}
