// Owner keys: everything in the tenant.
import { useState } from 'react';
import { OWNER } from '../../access/credentials.ts';
import { post } from '../../api/call.ts';
import { Select, TextField } from '../../parts/field.tsx';
import { KeyList } from './key-list.tsx';
import { NewCredential } from './new-credential.tsx';

const DAY_MS = 86_400_000;

export function OwnerKeys({ tenant }: { tenant: string }) {
  return (
    <KeyList
      tenant={tenant}
      path={OWNER}
      caption="Owner keys"
      about="An owner key can do everything in this tenant. Keep it on servers."
      empty="No owner keys yet. Create one for a program that needs full access."
      form={(onClose) => <NewOwnerKey tenant={tenant} onClose={onClose} />}
    />
  );
}

function NewOwnerKey({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [label, setLabel] = useState('');
  const [days, setDays] = useState('90');
  return (
    <NewCredential
      tenant={tenant}
      title="New key"
      paths={['label', 'expiresAt']}
      onClose={onClose}
      make={async () => {
        const expiresAt = days === '' ? {} : { expiresAt: new Date(Date.now() + Number(days) * DAY_MS).toISOString() };
        return (await post<{ key: string }>(OWNER, { label: label.trim(), ...expiresAt }, { tenant })).key;
      }}
      fields={(problems) => (
        <>
          <TextField
            label="Label"
            hint="What uses it, such as nightly import."
            error={problems.label}
            value={label}
            onChange={(event) => setLabel(event.target.value)}
          />
          <ExpiryField value={days} error={problems.expiresAt} onChange={setDays} />
        </>
      )}
    />
  );
}

interface ExpiryProps {
  value: string;
  error?: string | undefined;
  /** Without "never", and the longest time that the kind allows. */
  isBounded?: boolean;
  onChange: (days: string) => void;
}

export function ExpiryField({ value, error, isBounded = false, onChange }: ExpiryProps) {
  return (
    <Select label="Expires" error={error} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="30">in 30 days</option>
      <option value="90">in 90 days</option>
      <option value="365">in a year</option>
      {!isBounded && <option value="">never</option>}
    </Select>
  );
}
