// Changes a user's name, address and role, or sets a new password. Only what was changed is sent.

import { useState } from 'react';
import { patch } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { NewPasswordField } from '../../app/new-password.tsx';
import { Checkbox, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import type { User } from './queries.ts';
import { RoleField } from './role-field.tsx';

export function ChangeUser({ tenant, user, onClose }: { tenant: string; user: User; onClose: () => void }) {
  const [name, setName] = useState(user.name);
  const [email, setEmail] = useState(user.email);
  const [role, setRole] = useState(user.role);
  const [password, setPassword] = useState<string | null>(null);
  const change = {
    ...(name === user.name ? {} : { name }),
    ...(email === user.email ? {} : { email: email.trim() }),
    ...(role === user.role ? {} : { role }),
    ...(password === null ? {} : { password }),
  };
  const save = async (): Promise<void> => {
    if (Object.keys(change).length === 0) return onClose();
    await patch(`/api/users/${user.id}`, change, { tenant });
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'users') });
    saySuccess({ title: saidOf(name, change) });
    onClose();
  };
  return (
    <FormDialog
      title={`Change ${user.name}`}
      refusal="Nothing was changed."
      paths={['name', 'email', 'role', 'password']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="Name"
            error={problems.name}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <TextField
            label="E-mail"
            type="email"
            error={problems.email}
            value={email}
            onChange={(event) => setEmail(event.target.value)}
          />
          <RoleField
            tenant={tenant}
            value={role}
            error={problems.role}
            hint="Takes effect within a second, including in open sessions."
            onChange={setRole}
          />
          <Checkbox
            label="Set a new password and end all their sessions"
            checked={password !== null}
            onChange={(event) => setPassword(event.target.checked ? '' : null)}
          />
          {password !== null && (
            <NewPasswordField label="New password" value={password} error={problems.password} onChange={setPassword} />
          )}
        </>
      )}
    </FormDialog>
  );
}

function saidOf(name: string, change: { role?: string; password?: string }): string {
  if (change.role !== undefined) return `${name} is ${change.role} now.`;
  return change.password === undefined ? 'Saved.' : `${name} has a new password.`;
}
