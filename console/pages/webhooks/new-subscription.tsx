// "New subscription": what is sent where. The console makes the secret, which the API never shows again, and shows it
// once with the code of a receiver that verifies it.

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { post } from '../../api/call.ts';
import { entitiesQuery, keyOf, queryClient } from '../../api/queries.ts';
import { EVENT_TYPES, SUBSCRIPTIONS, type Subscription } from '../../api/webhooks.ts';
import { useParams } from '../../app/params.ts';
import { go } from '../../app/router.tsx';
import { Combobox } from '../../parts/combobox.tsx';
import { Checkbox, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { ReceiverCode } from '../../parts/receiver-code.tsx';
import { SecretOnce } from '../../parts/secret-once.tsx';

const SECRET_BYTES = 32;

/** As Standard Webhooks writes it. */
export function newSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(SECRET_BYTES))))}`;
}

export function NewSubscription({ onClose }: { onClose: () => void }) {
  const { tenant } = useParams();
  const { data: entities = [] } = useQuery(entitiesQuery(tenant));
  const [entity, setEntity] = useState<string[]>([]);
  const [url, setUrl] = useState('');
  const [types, setTypes] = useState<readonly string[]>(EVENT_TYPES);
  const [made, setMade] = useState<{ id: string; secret: string } | null>(null);
  const save = async (): Promise<void> => {
    const secret = newSecret();
    const body = { entity_name: entity[0] ?? '', event_types: types, url: url.trim(), secret };
    const { id } = await post<Subscription>(SUBSCRIPTIONS, body, { tenant });
    setMade({ id, secret });
    await queryClient.invalidateQueries({ queryKey: keyOf(tenant, 'subscriptions') });
  };
  if (made !== null) {
    const leave = (): void => {
      onClose();
      go(`/app/t/${tenant}/webhooks/${made.id}`);
    };
    return (
      <SecretOnce
        title="The subscription is ready"
        noun="secret"
        value={made.secret}
        variable="WEBHOOK_SECRET"
        onClose={leave}
      >
        <p className="dim">It signs every request. Receivers verify it like this:</p>
        <ReceiverCode />
      </SecretOnce>
    );
  }
  return (
    <FormDialog
      title="New subscription"
      action="Create"
      refusal="No subscription was created."
      paths={['entity_name', 'url', 'event_types']}
      save={save}
      onClose={onClose}
    >
      {(problems) => (
        <>
          <Combobox
            label="Entity"
            options={entities.map(({ name, label }) => ({
              value: name,
              label: name,
              ...(label ? { detail: label } : {}),
            }))}
            value={entity}
            error={problems.entity_name}
            onChange={setEntity}
          />
          <TextField
            label="Address"
            type="url"
            placeholder="https://receiver.example/hooks"
            value={url}
            error={problems.url}
            onChange={({ target }) => setUrl(target.value)}
          />
          <EventTypes types={types} error={problems.event_types} onChange={setTypes} />
        </>
      )}
    </FormDialog>
  );
}

interface TypesProps {
  types: readonly string[];
  error: string | undefined;
  onChange: (types: string[]) => void;
}

function EventTypes({ types, error, onChange }: TypesProps) {
  return (
    <fieldset className="webhooks-types">
      <legend>Events</legend>
      {EVENT_TYPES.map((type) => (
        <Checkbox
          key={type}
          label={type}
          checked={types.includes(type)}
          onChange={({ target }) =>
            onChange(EVENT_TYPES.filter((one) => (one === type ? target.checked : types.includes(one))))
          }
        />
      ))}
      {error !== undefined && <p className="field-error">{error}</p>}
    </fieldset>
  );
}
