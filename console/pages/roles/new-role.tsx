// "New role": a name, what it is for, and the role whose rights it begins with. Its page then opens.

import { useState } from 'react';
import type { Role } from '../../access/permissions.ts';
import { post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { go } from '../../app/router.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';

export function NewRole({ tenant, roles, onClose }: { tenant: string; roles: readonly Role[]; onClose: () => void }) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [source, setSource] = useState<string[]>([]);
  const save = async (): Promise<void> => {
    const { permissions = {}, entities = {} } = roles.find((role) => role.name === source[0]) ?? {};
    const about = description.trim() === '' ? {} : { description: description.trim() };
    await post('/api/roles', { name: name.trim(), ...about, permissions, entities }, { tenant });
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'roles') });
    go(`/app/t/${tenant}/roles/${encodeURIComponent(name.trim())}`);
  };
  return (
    <FormDialog
      title="New role"
      action="Create role"
      refusal="No role was created."
      paths={['name', 'description']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="Name"
            hint="Letters, digits, dots, hyphens; it cannot be changed later."
            error={problems.name}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <TextField
            label="Description"
            optional
            error={problems.description}
            value={description}
            onChange={(event) => setDescription(event.target.value)}
          />
          <Combobox
            label="Copy the permissions of"
            optional
            placeholder="no permissions"
            options={roles.map((role) => ({ value: role.name, label: role.name }))}
            value={source}
            onChange={setSource}
          />
        </>
      )}
    </FormDialog>
  );
}
