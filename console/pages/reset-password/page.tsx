// The page that the link of a reset mail opens: a new password, then sign-in. The token names its tenant by itself. It
// runs without a session, router and queries.
import { type FormEvent, useState } from 'react';
import { post } from '../../api/call.ts';
import { problemsByField, statusOf } from '../../api/errors.ts';
import { signIn } from '../../api/session.ts';
import { NewPasswordField, passwordProblem } from '../../app/new-password.tsx';
import { OpenCard } from '../../app/open-card.tsx';
import { SignInForm } from '../../app/sign-in.tsx';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Notice } from '../../parts/states.tsx';

type Step = 'password' | 'unusable' | 'done';

const TITLES = { password: 'New password', unusable: 'New password', done: 'Sign in' } as const;

export default function ResetPassword() {
  const token = new URLSearchParams(location.search).get('token')?.trim() ?? '';
  const [step, setStep] = useState<Step>(token === '' ? 'unusable' : 'password');
  return (
    <OpenCard title={TITLES[step]}>
      {step === 'password' && <Form token={token} onStep={setStep} />}
      {step === 'unusable' && <Unusable />}
      {step === 'done' && (
        <>
          <div role="status">
            <Notice>Your new password is set. All your earlier sessions have ended.</Notice>
          </div>
          <SignInForm
            tab="password"
            whenDone={(session) => {
              signIn(session);
              location.replace('/app');
            }}
          />
        </>
      )}
    </OpenCard>
  );
}

function Form({ token, onStep }: { token: string; onStep: (step: Step) => void }) {
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState<string | undefined>();
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const found = passwordProblem(password);
    setProblem(found);
    setFailure(null);
    if (found !== undefined) return;
    setBusy(true);
    try {
      await post('/api/auth/tenant/reset-password', { token, password }, { isOpen: true });
      onStep('done');
    } catch (cause) {
      const problems = problemsByField(cause);
      if (problems.token !== undefined || statusOf(cause) === 403) onStep('unusable');
      else if (problems.password !== undefined) setProblem(problems.password);
      else setFailure(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form className="stack" onSubmit={submit} noValidate>
      <NewPasswordField label="New password" value={password} error={problem} onChange={setPassword} />
      {failure !== null && <ErrorPanel title="The password was not set." error={failure} />}
      <div>
        <Button kind="primary" type="submit" busy={busy}>
          Set password
        </Button>
      </div>
    </form>
  );
}

/** The service does not say which of these it is. */
function Unusable() {
  return (
    <div className="stack" role="alert">
      <Notice tone="warn">This link cannot be used.</Notice>
      <p>
        A password link works once, within an hour. This one was used, has expired, or is incomplete. Nothing was
        changed.
      </p>
      <p>
        <a href="/app">Sign in or ask for a new link</a>
      </p>
    </div>
  );
}
