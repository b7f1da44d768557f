// The form of an invitation. Problems stand at their fields; an invitation that was used, withdrawn or has expired in the
// meantime is said in one sentence.
import { type FormEvent, useState } from 'react';
import { post } from '../../api/call.ts';
import { problemsByField, statusOf } from '../../api/errors.ts';
import { signIn } from '../../api/session.ts';
import { withPassword } from '../../api/sign-in.ts';
import { NewPasswordField, passwordProblem } from '../../app/new-password.tsx';
import { Button } from '../../parts/button.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { Notice } from '../../parts/states.tsx';

interface Props {
  token: string;
  email: string | null;
  tenantSlug: string | null;
}

const EMPTY = { email: '', name: '', password: '', tenantName: '', tenantSlug: '' };
type Values = typeof EMPTY;
type Problems = Partial<Record<keyof Values, string>>;

const SAID: Readonly<Record<number, string>> = {
  403: 'This invitation is for another e-mail address, or its tenant is suspended.',
  404: 'This invitation is unknown. Ask for a new one.',
  410: 'This invitation has expired. Ask the person who invited you for a new one.',
};

export function Accept({ token, email, tenantSlug }: Props) {
  const isFounding = tenantSlug === null;
  const [values, setValues] = useState<Values>({ ...EMPTY, email: email ?? '' });
  const [problems, setProblems] = useState<Problems>({});
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [isAccepted, setAccepted] = useState(false);
  const set = (patch: Partial<Values>): void => setValues((before) => ({ ...before, ...patch }));
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const found = problemsOf(values, isFounding);
    setProblems(found);
    setFailure(null);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      await accept(token, values, isFounding);
      setAccepted(true);
      signIn(await withPassword(tenantSlug ?? values.tenantSlug, values.email, values.password));
      location.replace('/app');
    } catch (cause) {
      setProblems(problemsByField(cause));
      setFailure(cause);
    } finally {
      setBusy(false);
    }
  };
  if (isAccepted) return <Joined failure={failure} />;
  const field = (key: keyof Values) => ({
    value: values[key],
    error: problems[key],
    onChange: ({ target }: { target: { value: string } }) => set({ [key]: target.value }),
  });
  return (
    <form className="stack" onSubmit={submit} noValidate>
      {isFounding && (
        <>
          <p>A tenant is a separate space for your records. You become its owner.</p>
          <TextField
            label="Tenant name"
            autoComplete="organization"
            {...field('tenantName')}
            onChange={({ target }) =>
              set({
                tenantName: target.value,
                ...(values.tenantSlug === slugOf(values.tenantName) ? { tenantSlug: slugOf(target.value) } : {}),
              })
            }
          />
          <TextField
            label="Tenant"
            hint="Its short name in links and at sign-in: lower-case letters, digits and hyphens."
            autoCapitalize="none"
            spellCheck={false}
            {...field('tenantSlug')}
          />
        </>
      )}
      <TextField
        label="E-mail"
        type="email"
        name="username"
        autoComplete="username"
        readOnly={email !== null}
        {...(email === null ? {} : { hint: 'The invitation is for this address.' })}
        {...field('email')}
      />
      <TextField label="Name" name="name" autoComplete="name" {...field('name')} />
      <NewPasswordField value={values.password} error={problems.password} onChange={(password) => set({ password })} />
      {failure !== null && <Refusal failure={failure} problems={problems} />}
      <div>
        <Button kind="primary" type="submit" busy={busy}>
          Accept
        </Button>
      </div>
    </form>
  );
}

async function accept(token: string, values: Values, isFounding: boolean): Promise<void> {
  const { email, name, password, tenantName, tenantSlug } = values;
  const person = { token, email: email.trim(), name: name.trim(), password };
  const tenant = isFounding ? { tenantName: tenantName.trim(), tenantSlug } : {};
  await post('/auth/invite/accept', { ...person, ...tenant }, { isOpen: true });
}

function problemsOf(values: Values, isFounding: boolean): Problems {
  const required: (keyof Values)[] = ['email', 'name', ...(isFounding ? (['tenantName', 'tenantSlug'] as const) : [])];
  const missing = required
    .filter((key) => values[key].trim() === '')
    .map((key) => [key, 'This field is required.'] as const);
  const password = passwordProblem(values.password);
  return Object.fromEntries([...missing, ...(password === undefined ? [] : [['password', password] as const])]);
}

/** "Acme Ltd." becomes "acme-ltd". */
function slugOf(name: string): string {
  const plain = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
}

function Refusal({ failure, problems }: { failure: unknown; problems: Problems }) {
  const status = statusOf(failure);
  if (Object.keys(problems).some((key) => key in EMPTY)) return null;
  if (status !== 409 && SAID[status] === undefined) return <ErrorPanel error={failure} />;
  return (
    <div role="alert">
      <Notice tone="bad">{SAID[status] ?? conflictOf(failure)}</Notice>
    </div>
  );
}

function conflictOf(failure: unknown): string {
  const { message } = failure as Error;
  if (/invitation is accepted/.test(message)) return 'This invitation was accepted before. Sign in instead.';
  if (/invitation is revoked/.test(message)) return 'This invitation was withdrawn. Ask for a new one.';
  if (/address|e-mail|email/i.test(message)) return 'This address already has an account. Sign in instead.';
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** Accepted; signing in did not follow by itself, such as after too many attempts. */
function Joined({ failure }: { failure: unknown }) {
  return (
    <div className="stack">
      <p>Your account is ready.</p>
      {failure !== null && <ErrorPanel title="Could not sign you in." error={failure} />}
      <p>
        <a href="/app">Sign in</a>
      </p>
    </div>
  );
}
