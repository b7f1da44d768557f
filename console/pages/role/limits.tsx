// The panel of one entity: which rows the role sees ("Row filter", as text or built, checked and counted by the service
// while the person types) and which fields.
import type { Restriction } from '../../access/permissions.ts';
import type { Entity } from '../../api/answers.ts';
import { ConditionField } from '../../filter/condition.tsx';
import { Checkbox } from '../../parts/field.tsx';
import { visible, withField, withLaterHidden } from './draft.ts';
import { RowCount, useCheckedFilter } from './row-count.tsx';

interface Props {
  tenant: string;
  role: string;
  entity: Entity;
  restriction: Restriction;
  isReadOnly: boolean;
  /** The service's message for the filter when saving was refused. */
  refused: string | undefined;
  onChange: (next: Restriction) => void;
}

export function Limits({ tenant, role, entity, restriction, isReadOnly, refused, onChange }: Props) {
  const { rowFilter = '' } = restriction;
  const check = useCheckedFilter(tenant, entity.name, rowFilter);
  const keys = entity.fields.map(({ key }) => key);
  const shown = visible(restriction, keys);
  return (
    <div className="stack role-limits">
      <ConditionField
        label="Row filter"
        hint="Empty: all records"
        entity={entity}
        isReadOnly={isReadOnly}
        error={check.problem ?? refused}
        value={rowFilter}
        onChange={(next) => onChange({ ...restriction, rowFilter: next })}
      />
      {check.problem === undefined && <RowCount {...{ tenant, role, entity, check }} />}
      <fieldset className="role-fields">
        <legend>
          Fields that {role} sees: {shown.length} of {keys.length}
        </legend>
        {keys.map((key) => (
          <Checkbox
            key={key}
            label={key}
            checked={shown.includes(key)}
            disabled={isReadOnly}
            onChange={(event) => onChange(withField(restriction, key, event.target.checked))}
          />
        ))}
      </fieldset>
      <p className="caption">A hidden field is also not writable, not in filters, and not in events.</p>
      <Checkbox
        label="Hide fields that are added later"
        checked={restriction.fields !== undefined}
        disabled={isReadOnly}
        onChange={(event) => onChange(withLaterHidden(restriction, keys, event.target.checked))}
      />
    </div>
  );
}
