// "Invite": a mail with a link, a link to pass on, or a user with a password that the admin sets. A link is shown once.
import { useState } from 'react';
import { post } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { NewPasswordField } from '../../app/new-password.tsx';
import { Button } from '../../parts/button.tsx';
import { CopyButton } from '../../parts/copy-button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Select, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { Notice } from '../../parts/states.tsx';
import { saySuccess } from '../../parts/toast.tsx';
import { RoleField } from './role-field.tsx';

type Way = 'mail' | 'link' | 'password';

const HINTS: Readonly<Record<Way, string>> = {
  mail: 'They choose their own password. The link works for 7 days.',
  link: 'You share the link. The first person to open it joins as member. It works for 7 days.',
  password: 'They can sign in at once. No e-mail is sent.',
};

const EMPTY = { way: 'mail' as Way, email: '', name: '', role: 'member', password: '' };
type Values = typeof EMPTY;

export function Invite({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [values, setValues] = useState(EMPTY);
  const [made, setMade] = useState<Made | null>(null);
  const set = (patch: Partial<Values>): void => setValues((before) => ({ ...before, ...patch }));
  const save = async (): Promise<void> => {
    const link = await send(tenant, values);
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant) });
    if (link !== null) return setMade(link);
    const email = values.email.trim();
    saySuccess({ title: values.way === 'mail' ? `An invitation goes to ${email}.` : `${email} can sign in now.` });
    onClose();
  };
  if (made !== null) return <MadeLink made={made} onClose={onClose} />;
  return (
    <FormDialog
      title="Invite"
      action={values.way === 'link' ? 'Create link' : values.way === 'mail' ? 'Send invitation' : 'Add person'}
      refusal="The invitation was not sent."
      paths={Object.keys(EMPTY)}
      save={save}
      onClose={onClose}
    >
      {(problems) => <Fields tenant={tenant} values={values} set={set} problems={problems} />}
    </FormDialog>
  );
}

interface FieldsProps {
  tenant: string;
  values: Values;
  set: (patch: Partial<Values>) => void;
  problems: Record<string, string>;
}

function Fields({ tenant, values, set, problems }: FieldsProps) {
  const { way, email, name, role, password } = values;
  return (
    <>
      <Select label="How" hint={HINTS[way]} value={way} onChange={(event) => set({ way: event.target.value as Way })}>
        <option value="mail">By e-mail</option>
        <option value="link">With a link that I share</option>
        <option value="password">With a password that I set</option>
      </Select>
      <TextField
        label="E-mail"
        type="email"
        optional={way === 'link'}
        {...(way === 'link'
          ? { hint: 'With an address, only that person can use the link, and it is e-mailed there too.' }
          : {})}
        error={problems.email}
        value={email}
        onChange={(event) => set({ email: event.target.value })}
      />
      {way !== 'link' && (
        <>
          <TextField
            label="Name"
            error={problems.name}
            value={name}
            onChange={(event) => set({ name: event.target.value })}
          />
          <RoleField tenant={tenant} value={role} error={problems.role} onChange={(chosen) => set({ role: chosen })} />
        </>
      )}
      {way === 'password' && (
        <NewPasswordField value={password} error={problems.password} onChange={(typed) => set({ password: typed })} />
      )}
    </>
  );
}

/** A link to pass on. */
interface Made {
  link: string;
  /** Who may use it; '' for anyone. */
  email: string;
  isMailed: boolean;
}

interface Answer {
  /** Null when the link is mailed, or the person needs none. */
  inviteUrl?: string | null;
  mailed?: boolean;
}

/** The link to pass on, or null when there is none. */
async function send(tenant: string, { way, email: typed, name, role, password }: Values): Promise<Made | null> {
  const email = typed.trim();
  const person = { email, name: name.trim(), role, ...(way === 'password' ? { password } : {}) };
  const { inviteUrl: link, mailed: isMailed = false } =
    way === 'link'
      ? await post<Answer>('/api/invitations', email === '' ? {} : { email }, { tenant })
      : await post<Answer>('/api/users', person, { tenant });
  return link == null ? null : { link, email, isMailed };
}

function MadeLink({ made: { link, email, isMailed }, onClose }: { made: Made; onClose: () => void }) {
  return (
    <Dialog
      title="The link is ready"
      onClose={onClose}
      actions={
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <div className="stack">
        {email !== '' && !isMailed && (
          <Notice tone="warn">
            No e-mail was sent: this service has no mail server. Pass the link on to {email} yourself.
          </Notice>
        )}
        <Notice>
          This is the only time you see this link. It works once, within 7 days
          {email === '' ? '.' : `, for ${email} alone.`}
        </Notice>
        <p className="secret-value mono">{link}</p>
        <div>
          <CopyButton value={link} />
        </div>
      </div>
    </Dialog>
  );
}
