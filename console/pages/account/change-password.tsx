// A new password of one's own. It ends all of the person's sessions; this one goes on by signing in with the new password.

import { type FormEvent, useState } from 'react';
import { credentialHeaders } from '../../../client/src/credential.ts';
import { call } from '../../api/call.ts';
import { problemsByField, statusOf } from '../../api/errors.ts';
import { type Session, signIn } from '../../api/session.ts';
import { withPassword } from '../../api/sign-in.ts';
import { NewPasswordField, passwordProblem } from '../../app/new-password.tsx';
import { useWriteBlock } from '../../app/write-block.ts';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { PasswordField } from '../../parts/field.tsx';
import { saySuccess } from '../../parts/toast.tsx';

export function ChangePassword({ tenant, current }: { tenant: string; current: Session }) {
  const block = useWriteBlock();
  const [before, setBefore] = useState('');
  const [after, setAfter] = useState('');
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (busy || block !== null) return;
    const weak = passwordProblem(after);
    const found = {
      ...(before === '' ? { currentPassword: 'This field is required.' } : {}),
      ...(weak === undefined ? {} : { newPassword: weak }),
    };
    setProblems(found);
    setFailure(null);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      await change(tenant, current, before, after);
      signIn(await withPassword(tenant, current.email ?? '', after));
      setBefore('');
      setAfter('');
      saySuccess({ title: 'Your new password is set. All your other sessions have ended.' });
    } catch (cause) {
      if (statusOf(cause) === 401) setProblems({ currentPassword: 'This is not your current password.' });
      else if (Object.keys(problemsByField(cause)).length > 0) setProblems(problemsByField(cause));
      else setFailure(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className="stack account-password" aria-labelledby="account-password">
      <h2 id="account-password">Password</h2>
      <form className="stack" onSubmit={submit} noValidate>
        <PasswordField
          label="Current password"
          autoComplete="current-password"
          error={problems.currentPassword}
          value={before}
          onChange={(event) => setBefore(event.target.value)}
        />
        <NewPasswordField label="New password" value={after} error={problems.newPassword} onChange={setAfter} />
        {failure !== null && <ErrorPanel title="The password was not changed." error={failure} />}
        <div>
          <Button kind="primary" type="submit" busy={busy} disabledReason={block}>
            Change password
          </Button>
        </div>
      </form>
    </section>
  );
}

/** With the credential by hand: its 401 means a wrong password, not an expired session. */
async function change(tenant: string, current: Session, before: string, after: string): Promise<void> {
  const body = { currentPassword: before, newPassword: after };
  const headers = credentialHeaders(current.credential);
  await call('POST', '/api/auth/tenant/change-password', { isOpen: true, tenant, body, headers });
}
