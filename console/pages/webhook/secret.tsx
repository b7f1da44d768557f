// The secret of a subscription: whether there is one, until when the one before signs too, and a new one, shown once.
import { useState } from 'react';
import { put } from '../../api/call.ts';
import { keyOf, queryClient } from '../../api/queries.ts';
import { newSecret, SUBSCRIPTIONS, type Subscription } from '../../api/webhooks.ts';
import { Button } from '../../parts/button.tsx';
import { Select } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';
import { ago, exactTime } from '../../parts/value.ts';

const HOURS = [24, 0, 1, 8, 48, 72];

interface Props {
  tenant: string;
  subscription: Subscription;
  block: string | null;
}

export function Secret({ tenant, subscription, block }: Props) {
  const { id, has_secret: hasSecret, secret_previous_until: until } = subscription;
  const [isAsked, ask] = useState(false);
  const [hours, setHours] = useState(hasSecret ? 24 : 0);
  const [secret, setSecret] = useState<string | null>(null);
  const replace = async (): Promise<void> => {
    const next = newSecret();
    await put(`${SUBSCRIPTIONS}/${id}`, { secret: next, keepPreviousForHours: hours }, { tenant });
    ask(false);
    setSecret(next);
  };
  const finish = (): void => {
    setSecret(null);
    void queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
  };
  return (
    <section className="stack" aria-labelledby="webhook-secret">
      <div className="row spread">
        <h2 id="webhook-secret">Secret</h2>
        <Button icon="key-round" disabledReason={block} onClick={() => ask(true)}>
          New secret
        </Button>
      </div>
      <p className="dim">
        {hasSecret ? 'Requests are signed with its secret.' : 'It has no secret, so requests are not signed.'}
        {until !== undefined && (
          <>
            {' '}
            The secret before signs too, until <span title={exactTime(until)}>{ago(until)}</span>.
          </>
        )}
      </p>
      {isAsked && (
        <FormDialog
          title={hasSecret ? 'Replace the secret?' : 'Sign requests?'}
          action="Confirm"
          refusal="The secret was not replaced."
          paths={['keepPreviousForHours']}
          save={replace}
          onClose={() => ask(false)}
        >
          {(problems) => (
            <>
              <p>From now on, all requests are signed with the new secret, including waiting ones.</p>
              {hasSecret && (
                <Select
                  label="The secret before signs too"
                  hint="So long, receivers may know either."
                  value={hours}
                  error={problems.keepPreviousForHours}
                  onChange={({ target }) => setHours(Number(target.value))}
                >
                  {HOURS.map((count) => (
                    <option key={count} value={count}>
                      {count === 0 ? 'no longer' : `for ${count} ${count === 1 ? 'hour' : 'hours'}`}
                    </option>
                  ))}
                </Select>
              )}
            </>
          )}
        </FormDialog>
      )}
      {secret !== null && (
        <SecretOnce title="The new secret" noun="secret" value={secret} variable="WEBHOOK_SECRET" onClose={finish} />
      )}
    </section>
  );
}
