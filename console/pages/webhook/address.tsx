// The address of a subscription, which may be mended, and its secret, which may be replaced.
import { type FormEvent, useState } from 'react';
import { put } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { SUBSCRIPTIONS, type Subscription } from '../../api/webhooks.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { TextField } from '../../parts/field.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { useSubmit } from '../../parts/submit.ts';
import { saySuccess } from '../../parts/toast.tsx';

interface Props {
  tenant: string;
  subscription: Subscription;
  block: string | null;
}

export function Address({ tenant, subscription, block }: Props) {
  const { id, url, has_secret: hasSecret } = subscription;
  const [typed, setTyped] = useState(url);
  const [isAsked, ask] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const { busy, failure, problems, submit } = useSubmit();
  const change = async (body: object): Promise<void> => {
    await put(`${SUBSCRIPTIONS}/${id}`, body, { tenant });
  };
  const read = (): Promise<void> => queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (!(await submit(() => change({ url: typed.trim() })))) return;
    saySuccess({ title: 'The address was saved.', description: 'Waiting deliveries go there too.' });
    await read();
  };
  const replace = async (): Promise<void> => {
    const next = `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
    await change({ secret: next });
    setSecret(next);
  };
  const finish = (): void => {
    setSecret(null);
    void read();
  };
  return (
    <form className="webhook-address" noValidate onSubmit={save}>
      <div className="grow">
        <TextField
          label="Address"
          type="url"
          value={typed}
          error={problems.url}
          hint={hasSecret ? 'Requests are signed with its secret.' : 'It has no secret, so requests are not signed.'}
          onChange={({ target }) => setTyped(target.value)}
        />
      </div>
      <div className="row">
        <Button
          type="submit"
          busy={busy}
          disabledReason={block ?? (typed.trim() === url ? 'Nothing was changed' : null)}
        >
          Save
        </Button>
        <Button icon="key-round" disabledReason={block} onClick={() => ask(true)}>
          New secret
        </Button>
      </div>
      {failure !== null && problems.url === undefined && <ErrorPanel title="Nothing was saved." error={failure} />}
      {isAsked && (
        <Confirm title="Replace the secret?" onConfirm={replace} onClose={() => ask(false)}>
          From now on, all requests are signed with the new secret, including waiting ones. Receivers that check
          signatures refuse them until they have the new secret.
        </Confirm>
      )}
      {secret !== null && (
        <SecretOnce title="The new secret" noun="secret" value={secret} variable="WEBHOOK_SECRET" onClose={finish} />
      )}
    </form>
  );
}
