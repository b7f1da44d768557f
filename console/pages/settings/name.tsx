// How the tenant is called. Its slug stays.
import { useState } from 'react';
import type { OwnTenant } from '../../api/tenant.ts';
import { TextField } from '../../parts/field.tsx';
import { Section } from './section.tsx';

export function Name({ tenant, own, block }: { tenant: string; own: OwnTenant; block: string | null }) {
  const [typed, type] = useState<string | null>(null);
  const name = typed ?? own.name;
  return (
    <Section
      tenant={tenant}
      title="Name"
      block={block}
      change={name.trim() === own.name ? null : { name: name.trim() }}
      onSaved={() => type(null)}
    >
      {(problems) => (
        <TextField
          label="Tenant name"
          value={name}
          error={problems.name}
          hint={
            <>
              Its slug <code>{own.slug}</code> identifies it in addresses and headers and does not change.
            </>
          }
          onChange={({ target }) => type(target.value)}
        />
      )}
    </Section>
  );
}
