// Public keys: read-only, for pages and apps where everyone can see them.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { PUBLIC, type PublicKey } from '../../access/credentials.ts';
import { rolesQuery } from '../../access/queries.ts';
import { post } from '../../api/call.ts';
import { Combobox } from '../../parts/combobox.tsx';
import { Checkbox, TextAreaField, TextField } from '../../parts/field.tsx';
import { KeyList } from './key-list.tsx';
import { NewCredential } from './new-credential.tsx';
import { ExpiryField } from './owner-keys.tsx';

export function PublicKeys({ tenant }: { tenant: string }) {
  const { data: roles = [] } = useQuery(rolesQuery(tenant));
  return (
    <KeyList<PublicKey>
      tenant={tenant}
      path={PUBLIC}
      caption="Public keys"
      about="A public key can only read what its role may read. It is safe to put in a web page or an app."
      empty="No public keys yet. Create one for a web page or an app that only reads."
      more={[
        {
          key: 'role',
          header: 'role',
          isMinor: true,
          cell: ({ roleId }) => roles.find(({ id }) => id === roleId)?.name ?? '—',
        },
      ]}
      form={(onClose) => <NewPublicKey tenant={tenant} onClose={onClose} />}
    />
  );
}

const SCOPES = [
  { scope: 'records:read', label: 'Records' },
  { scope: 'channels:read', label: 'Live changes' },
] as const;

function NewPublicKey({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const { data: roles = [] } = useQuery(rolesQuery(tenant));
  const [label, setLabel] = useState('');
  const [role, setRole] = useState<string[]>([]);
  const [scopes, setScopes] = useState<string[]>(['records:read']);
  const [origins, setOrigins] = useState('');
  const [days, setDays] = useState('90');
  const [perDay, setPerDay] = useState('1000');
  return (
    <NewCredential
      tenant={tenant}
      title="New key"
      paths={['label', 'roleId', 'scopes', 'allowedOrigins', 'rateLimitPerDay']}
      onClose={onClose}
      make={async () => {
        const body = {
          label: label.trim(),
          roleId: role[0],
          scopes,
          allowedOrigins: origins.split(/[\s,]+/).filter(Boolean),
          ttlDays: Number(days),
          rateLimitPerDay: Number(perDay),
        };
        return (await post<{ key: string }>(PUBLIC, body, { tenant })).key;
      }}
      fields={(problems) => (
        <>
          <TextField
            label="Label"
            error={problems.label}
            value={label}
            onChange={(event) => setLabel(event.target.value)}
          />
          <Combobox
            label="Role"
            hint="It can read what this role may read."
            {...(problems.roleId === undefined ? {} : { error: problems.roleId })}
            options={roles.map(({ id, name }) => ({ value: id, label: name }))}
            value={role}
            onChange={setRole}
          />
          <fieldset className="keys-scopes">
            <legend>Reads</legend>
            {SCOPES.map(({ scope, label: name }) => (
              <Checkbox
                key={scope}
                label={name}
                checked={scopes.includes(scope)}
                onChange={({ target }) =>
                  setScopes(target.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))
                }
              />
            ))}
            {problems.scopes !== undefined && <p className="field-error">{problems.scopes}</p>}
          </fieldset>
          <TextAreaField
            label="Origins"
            optional
            rows={2}
            hint="Pages that may use it, one per line, such as https://www.example.com. If empty, no browser can use it."
            error={problems.allowedOrigins}
            value={origins}
            onChange={(event) => setOrigins(event.target.value)}
          />
          <TextField
            label="Requests per day"
            inputMode="numeric"
            error={problems.rateLimitPerDay}
            value={perDay}
            onChange={(event) => setPerDay(event.target.value)}
          />
          <ExpiryField isBounded value={days} onChange={setDays} />
        </>
      )}
    />
  );
}
