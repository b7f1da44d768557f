// "New tenant": its name, its slug, which follows the name until it is changed, and who owns it. Then its first key, once.

import { useState } from 'react';
import { post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { go } from '../../app/router.tsx';
import { Checkbox, PasswordField, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { TENANTS } from './shapes.ts';

interface Made {
  slug: string;
  name: string;
  apiKey: string;
}

const FIELDS = ['name', 'slug', 'owner.name', 'owner.email', 'owner.password'];

export function NewTenant({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Made | null>(null);
  const [typed, setTyped] = useState({ name: '', slug: null as string | null, person: '', email: '', password: '' });
  const [hasOwner, own] = useState(false);
  const slug = typed.slug ?? slugOf(typed.name);
  const type = (part: Partial<typeof typed>): void => setTyped({ ...typed, ...part });
  const save = async (): Promise<void> => {
    const owner = hasOwner
      ? { owner: { name: typed.person, email: typed.email.trim(), password: typed.password } }
      : {};
    setMade(await post<Made>(TENANTS, { name: typed.name.trim(), slug: slug.trim(), ...owner }));
    await queryClient.invalidateQueries({ queryKey: keyOf(null, 'tenants') });
  };
  if (made !== null) {
    const next = { label: `Open ${made.slug}`, onClick: () => go(`/app/t/${made.slug}`) };
    return (
      <SecretOnce title={`${made.slug} is ready`} value={made.apiKey} next={next} onClose={onClose}>
        <p className="dim">This is the owner key of {made.name}. It can do everything in this tenant.</p>
      </SecretOnce>
    );
  }
  return (
    <FormDialog
      title="New tenant"
      action="Create"
      refusal="No tenant was created."
      paths={FIELDS}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <TextField
            label="Name"
            value={typed.name}
            error={problems.name}
            onChange={({ target }) => type({ name: target.value })}
          />
          <TextField
            label="Slug"
            hint="Identifies the tenant in addresses and headers. It cannot be changed."
            value={slug}
            error={problems.slug}
            onChange={({ target }) => type({ slug: target.value })}
          />
          <Checkbox
            label="Create an owner who signs in with a password"
            checked={hasOwner}
            onChange={({ target }) => own(target.checked)}
          />
          {hasOwner && (
            <>
              <TextField
                label="Owner's name"
                value={typed.person}
                error={problems['owner.name']}
                onChange={({ target }) => type({ person: target.value })}
              />
              <TextField
                label="Owner's e-mail"
                type="email"
                value={typed.email}
                error={problems['owner.email']}
                onChange={({ target }) => type({ email: target.value })}
              />
              <PasswordField
                label="Owner's password"
                autoComplete="new-password"
                value={typed.password}
                error={problems['owner.password']}
                onChange={({ target }) => type({ password: target.value })}
              />
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}

/** "Acme GmbH & Co" becomes "acme-gmbh-co". */
function slugOf(name: string): string {
  return name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '')
    .slice(0, 48);
}
