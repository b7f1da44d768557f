// How people come in besides an invitation, and whether a forgotten password can be replaced by mail.
import { useState } from 'react';
import type { OwnTenant } from '../../api/tenant.ts';
import { Checkbox } from '../../parts/field.tsx';
import { Section } from './section.tsx';

export function SignIn({ tenant, own: { settings }, block }: { tenant: string; own: OwnTenant; block: string | null }) {
  const [changed, change] = useState<{ selfRegistration?: boolean; passwordReset?: boolean }>({});
  const shown = { ...settings, ...changed };
  const isChanged =
    shown.selfRegistration !== settings.selfRegistration || shown.passwordReset !== settings.passwordReset;
  return (
    <Section
      tenant={tenant}
      title="Sign-in"
      block={block}
      change={isChanged ? { settings: changed } : null}
      onSaved={() => change({})}
    >
      {() => (
        <>
          <Checkbox
            label="People can register themselves, as viewers"
            checked={shown.selfRegistration ?? false}
            onChange={({ target }) => change({ ...changed, selfRegistration: target.checked })}
          />
          <Checkbox
            label="People can reset a forgotten password by e-mail"
            checked={shown.passwordReset ?? false}
            onChange={({ target }) => change({ ...changed, passwordReset: target.checked })}
          />
        </>
      )}
    </Section>
  );
}
