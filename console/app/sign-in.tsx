// The sign-in page: "Password" for people, "Key" for keys and the super-admin secret. Its form is also that of the dialog
// after an expired session. The tenant of the last time is remembered, nothing else.
import { type FormEvent, useEffect, useState } from 'react';
import { statusOf } from '../api/errors.ts';
import { lastTenant, rememberTenant, type Session, signIn } from '../api/session.ts';
import { forgotPassword, withKey, withPassword } from '../api/sign-in.ts';
import { Button } from '../parts/button.tsx';
import { sentenceOf } from '../parts/error-panel.tsx';
import { PasswordField, TextField } from '../parts/field.tsx';
import { Notice } from '../parts/states.tsx';

type Tab = 'password' | 'key';

export function SignIn({ whenTyping }: { whenTyping: () => void }) {
  useEffect(() => {
    document.title = 'Sign in · Tenant Data Service';
  }, []);
  return (
    <main className="open-page">
      <div className="open-card">
        <div className="brand">
          <Mark />
          <h1>Tenant Data Service</h1>
        </div>
        <SignInForm whenTyping={whenTyping} whenDone={signIn} />
      </div>
      <p className="caption">
        <a href="/swagger">API reference</a>
      </p>
    </main>
  );
}

interface FormProps {
  whenTyping?: () => void;
  whenDone: (session: Session) => void;
  /** The expired session: the same person must sign in. */
  again?: Session;
  /** The tab to begin with; by default the one of the last time. */
  tab?: Tab;
}

export function SignInForm({ whenTyping, whenDone, again, tab: first }: FormProps) {
  const [tab, setTab] = useState<Tab>(() => {
    if (first !== undefined) return first;
    if (again !== undefined) return again.kind === 'user' ? 'password' : 'key';
    return lastTenant() === '' ? 'key' : 'password';
  });
  const tabs: readonly [Tab, string][] = [
    ['password', 'Password'],
    ['key', 'Key'],
  ];
  return (
    <>
      <div className="segments" role="tablist" aria-label="How to sign in">
        {tabs.map(([name, label]) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="sign-in-panel"
            tabIndex={tab === name ? 0 : -1}
            onClick={() => setTab(name)}
            onKeyDown={(event) => {
              if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
              const next = name === 'key' ? 'password' : 'key';
              setTab(next);
              document.getElementById(`tab-${next}`)?.focus();
            }}
          >
            {label}
          </button>
        ))}
      </div>
      <div id="sign-in-panel" role="tabpanel" aria-label="Sign in" onInput={whenTyping}>
        {tab === 'password' ? <PasswordForm whenDone={whenDone} again={again} /> : <KeyForm whenDone={whenDone} />}
      </div>
    </>
  );
}

function PasswordForm({ whenDone, again }: { whenDone: FormProps['whenDone']; again: Session | undefined }) {
  const [tenant, setTenant] = useState(again?.tenant ?? lastTenant());
  const [email, setEmail] = useState(again?.email ?? '');
  const [password, setPassword] = useState('');
  const [sent, setSent] = useState(false);
  const { busy, problem, run, fail } = useSubmit(
    'The e-mail address or password is wrong, or the account is temporarily locked.',
  );
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (tenant.trim() === '' || email.trim() === '' || password === '')
      return void fail('Enter the tenant, e-mail address and password.');
    void run(async () => whenDone(await withPassword(tenant, email, password)));
  };
  const forgot = (): void => {
    if (tenant.trim() === '' || email.trim() === '') return void fail('Enter the tenant and e-mail address first.');
    setSent(false);
    void run(async () => {
      await forgotPassword(tenant, email).catch(refusedReset);
      rememberTenant(tenant.trim());
      setSent(true);
    });
  };
  return (
    <form className="stack" onSubmit={submit} noValidate>
      <TextField
        label="Tenant"
        name="tenant"
        autoComplete="organization"
        autoCapitalize="none"
        spellCheck={false}
        value={tenant}
        onChange={(event) => setTenant(event.target.value)}
      />
      <TextField
        label="E-mail"
        type="email"
        name="username"
        autoComplete="username"
        value={email}
        onChange={(event) => setEmail(event.target.value)}
      />
      <PasswordField
        label="Password"
        name="password"
        autoComplete="current-password"
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      {problem !== null && <Problem text={problem} />}
      <div role="status">
        {sent && <Notice>If this address has an account, a link to set a new password is on its way.</Notice>}
      </div>
      <div className="row spread">
        <Button kind="primary" type="submit" busy={busy}>
          Sign in
        </Button>
        <Button kind="quiet" onClick={forgot}>
          Forgot password?
        </Button>
      </div>
    </form>
  );
}

function KeyForm({ whenDone }: { whenDone: FormProps['whenDone'] }) {
  const [key, setKey] = useState('');
  const { busy, problem, run, fail } = useSubmit('This key is unknown or has expired.');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (key.trim() === '') return void fail('Enter a key.');
    void run(async () => whenDone(await withKey(key)));
  };
  return (
    <form className="stack" onSubmit={submit} noValidate>
      <PasswordField
        label="Key"
        name="key"
        autoComplete="off"
        hint={
          lastTenant() === ''
            ? "Sign in with the super-admin secret to set up, or with a tenant's key."
            : "A tenant's key, or the super-admin secret."
        }
        value={key}
        onChange={(event) => setKey(event.target.value)}
      />
      {problem !== null && <Problem text={problem} />}
      <div>
        <Button kind="primary" type="submit" busy={busy}>
          Sign in
        </Button>
      </div>
    </form>
  );
}

function Problem({ text }: { text: string }) {
  return (
    <div role="alert">
      <Notice tone="bad">{text}</Notice>
    </div>
  );
}

/** Runs one submission at a time and keeps the sentence to show when it fails. */
function useSubmit(refusal: string) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const run = async (work: () => Promise<void>): Promise<void> => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      await work();
    } catch (cause) {
      setProblem(problemOf(cause, refusal));
    } finally {
      setBusy(false);
    }
  };
  return { busy, problem, run, fail: setProblem };
}

/** A tenant that resets no passwords answers like one that does not exist. */
function refusedReset(cause: unknown): never {
  if (statusOf(cause) !== 403) throw cause;
  throw new Error('This tenant does not send password links. Ask an admin to set a new password for you.');
}

/** One sentence for every 401: it does not say which part was wrong. */
function problemOf(cause: unknown, refusal: string): string {
  if (statusOf(cause) === 401) return refusal;
  if (statusOf(cause) === 404) return 'There is no tenant with this name.';
  return sentenceOf(cause);
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 16 16" width="28" height="28" aria-hidden="true">
      <rect width="16" height="16" rx="4" />
      <path d="M4 5h8M4 8h8M4 11h5" fill="none" strokeWidth="1.5" strokeLinecap="round" />
    </svg>
  );
}
