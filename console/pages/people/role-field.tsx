// The field that chooses one of the tenant's roles.
import { useQuery } from '@tanstack/react-query';
import { Combobox } from '../../parts/combobox.tsx';
import { Select } from '../../parts/field.tsx';
import { roleNamesQuery } from './queries.ts';

interface Props {
  tenant: string;
  value: string;
  error?: string | undefined;
  hint?: string;
  onChange: (role: string) => void;
}

const FEW = 7;

export function RoleField({ tenant, value, error, hint, onChange }: Props) {
  const { data: names = [value] } = useQuery(roleNamesQuery(tenant));
  const shown = names.includes(value) || value === '' ? names : [value, ...names];
  const common = { label: 'Role', ...(hint === undefined ? {} : { hint }), error };
  if (shown.length > FEW) {
    return (
      <Combobox
        {...common}
        options={shown.map((name) => ({ value: name, label: name }))}
        value={value === '' ? [] : [value]}
        onChange={([role = '']) => onChange(role)}
      />
    );
  }
  return (
    <Select {...common} value={value} onChange={(event) => onChange(event.target.value)}>
      {value === '' && <option value="">Choose a role</option>}
      {shown.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </Select>
  );
}
