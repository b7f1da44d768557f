// "New key" of the platform: name, scopes, end; then its value, once.

import { useState } from 'react';
import { Checkbox, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { PATH, withKey } from './admin-keys.tsx';

const SCOPES = [
  { key: 'platform:read', label: 'platform:read: see tenants and usage' },
  { key: 'tenants:manage', label: 'tenants:manage: create, change and delete tenants' },
  { key: 'platform:write', label: 'platform:write: create and revoke admin keys, together with the secret' },
];

interface Props {
  /** The admin key that goes beside the secret; '' for the secret alone. */
  adminKey: string;
  onMade: (value: string) => void;
  onClose: () => void;
}

export function NewAdminKey({ adminKey, onMade, onClose }: Props) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(['platform:read']);
  const [until, setUntil] = useState('');
  const [value, setValue] = useState<string | null>(null);
  const save = async (): Promise<void> => {
    const end = until === '' ? {} : { expiresAt: new Date(`${until}T23:59:59`).toISOString() };
    const made = await withKey<{ key: string }>(adminKey, 'POST', PATH, { name: name.trim(), scopes, ...end });
    setValue(made.key);
    onMade(made.key);
  };
  if (value !== null) {
    return <SecretOnce title={`The admin key ${name}`} value={value} variable="TDS_ADMIN_KEY" onClose={onClose} />;
  }
  return (
    <FormDialog
      title="New admin key"
      action="Create"
      refusal="No key was created."
      paths={['name', 'scopes', 'expiresAt']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField label="Name" value={name} error={problems.name} onChange={({ target }) => setName(target.value)} />
          <fieldset className="platform-scopes">
            <legend>Scopes</legend>
            {SCOPES.map(({ key, label }) => (
              <Checkbox
                key={key}
                label={label}
                checked={scopes.includes(key)}
                onChange={({ target }) =>
                  setScopes(target.checked ? [...scopes, key] : scopes.filter((scope) => scope !== key))
                }
              />
            ))}
            {problems.scopes !== undefined && <p className="field-error">{problems.scopes}</p>}
          </fieldset>
          <TextField
            label="Expires"
            optional
            type="date"
            value={until}
            error={problems.expiresAt}
            onChange={({ target }) => setUntil(target.value)}
          />
        </>
      )}
    </FormDialog>
  );
}
