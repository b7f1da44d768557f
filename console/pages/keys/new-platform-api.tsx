// "New API": a name and one role with what it may do. Further roles are added through the API.
import { useState } from 'react';
import { APIS } from '../../access/credentials.ts';
import { PermissionGrid } from '../../access/permission-grid.tsx';
import { type Permissions, toggled } from '../../access/permissions.ts';
import { useResources } from '../../access/queries.ts';
import { post } from '../../api/call.ts';
import { TextField } from '../../parts/field.tsx';
import { NewCredential } from './new-credential.tsx';

const NOTHING: Permissions = {};

export function NewPlatformApi({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState('reader');
  const [permissions, setPermissions] = useState<Permissions>(NOTHING);
  const resources = useResources(tenant, NOTHING);
  return (
    <NewCredential
      tenant={tenant}
      title="New API"
      label="Create API"
      wide
      paths={['name', 'slug', 'roles']}
      onClose={onClose}
      make={async () => {
        const of = Object.entries(permissions).map(([resource, list]) => [resource, { [role.trim()]: list }]);
        const body = {
          name: name.trim(),
          slug: slugOf(name),
          roles: [role.trim()],
          permissions: Object.fromEntries(of),
        };
        await post(APIS, body, { tenant });
        return null;
      }}
      fields={(problems) => (
        <>
          <TextField
            label="Name"
            hint="What uses it, such as Shop."
            error={problems.name ?? problems.slug}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
          <TextField
            label="Role of its keys"
            hint="If this tenant has a role with the same name, its limits to fields and rows apply too."
            error={problems.roles}
            value={role}
            onChange={(event) => setRole(event.target.value)}
          />
          <PermissionGrid
            label="What its keys may do"
            resources={resources}
            permissions={permissions}
            onToggle={(resource, operation) => setPermissions((before) => toggled(before, resource, operation))}
          />
        </>
      )}
    />
  );
}

function slugOf(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 60);
}
