// The kinds of changes that a subscription sends.
import { EVENT_TYPES } from '../api/webhooks.ts';
import { Checkbox } from '../parts/field.tsx';

interface Props {
  types: readonly string[];
  error: string | undefined;
  onChange: (types: string[]) => void;
}

export function EventTypes({ types, error, onChange }: Props) {
  return (
    <fieldset className="webhook-choices">
      <legend>Events</legend>
      {EVENT_TYPES.map((type) => (
        <Checkbox
          key={type}
          label={type}
          checked={types.includes(type)}
          onChange={({ target }) =>
            onChange(EVENT_TYPES.filter((one) => (one === type ? target.checked : types.includes(one))))
          }
        />
      ))}
      {error !== undefined && <p className="field-error">{error}</p>}
    </fieldset>
  );
}
